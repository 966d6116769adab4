"""What yields lists: each source gives changes and completeness, and nothing else.

`registered` are the registrations, `imported` what EndpointSlices show, `joined`
the source made of these two, `routers` what was configured; `explainer` tells of
one key why it is listed or not. A source knows no face and no watcher.
"""
