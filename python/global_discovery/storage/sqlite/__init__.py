"""Registrations in one SQLite file: for one machine that restarts.

`store` keeps what the loop knows and decides what is written when; `file` is
the file itself, used by one thread; `schema` is its format and how that moves.
"""
