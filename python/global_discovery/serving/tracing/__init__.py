"""Traces of calls: what the faces need to know of them, and apart from it how they are made.

`tracer` is all that the faces import; `otel` needs the extra of that name and is
loaded with `--tracing on` only. Without a tracer nothing is done for a call.
"""
