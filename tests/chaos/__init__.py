"""The chaos tier: everything runs, much is broken, and the promises are judged.

`python -m chaos` (with `tests` on the path; `make chaos`) starts a whole system of real
processes, breaks it by a seeded plan, and writes down what was done to it and what it
told. Nothing is judged while it runs: `judge` reads the finished history. See
docs/chaos.md.
"""
