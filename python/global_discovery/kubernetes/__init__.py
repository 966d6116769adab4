"""Talks to a Kubernetes API server: credentials, and an own list and watch.

It knows kinds by their path and decodes them into whatever type it is given; it
knows no pool and no slice.
"""
