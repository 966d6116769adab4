"""Where registrations are kept, behind one small interface.

A store knows no face, no view and no lease rule. It keeps what it is told and
says whether it did.
"""
