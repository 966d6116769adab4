"""The two faces, and what keeps them up: translation, health, metrics, life cycle.

No rule of the contract is decided here. A face turns a call into values of the
domain, and values of the domain into an answer.
"""
