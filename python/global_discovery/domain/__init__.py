"""What a pool, a lease, a mark and a change are, and the rules of the contract.

Pure: no input or output, no clock of its own, and no import outside the
standard library. Both faces obey these rules because they are here and nowhere
else.
"""
