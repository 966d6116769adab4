"""The generated protocol: messages and stubs of the package global_discovery.v1.

Everything beside this file is generated from protos/ by `make generate` and
checked for drift by `make check`; the contract stands in the .proto comments.
"""
