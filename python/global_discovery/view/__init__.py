"""The list as it is now and as it became so: positions, history, filters, fan-out.

Both faces serve from here, so they can never disagree. Nothing here knows a
wire format: faces keep the encoded forms of an entry with the entry.
"""
