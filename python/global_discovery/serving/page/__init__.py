"""The status page: what an operator wants to know at a glance, as HTML rendered here.

It reads what the faces serve from and decides nothing. Everything on it passes
through one template engine that escapes; no call to anywhere is made for it.
Its cost is bounded: see `pace` for the loop's time and `events` for streams.
"""
