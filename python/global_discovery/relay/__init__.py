"""A Pool Relay as a process of its own: watches a model server and keeps its pool registered.

Uses the client library and nothing of the server.
"""
