"""What yields lists: each source gives changes and completeness, and nothing else.

The registrations are one source, the configured routers another; a join of two
sources is a source. A source knows no face and no watcher.
"""
