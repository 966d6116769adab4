"""An API server of our own: the real HTTP protocol on loopback, and faults as a test scripts them.

    async with fake_kube_api() as api:
        api.put(slice_dict)                       # ADDED or MODIFIED
        api.delete("ns", "name")                  # DELETED
        api.fail_next(throttled(retry_after=2))   # the next request of any kind
        api.fail_next(gone(), verb="watch")
        api.fail_always(forbidden("list")); api.heal()
        api.bookmark(); api.end_watches(); api.reset_watches(); api.inject(b"...")
        await api.watching(); api.count("list"); api.asked

It knows no kind: endpointslices are served from the start, others by `serves` or
once an object of theirs is put. Versions, paging, selectors, bookmarks, 410 for
versions that `compact` took away, and watches of one namespace are as the real
one's; validation, defaulting and everything that writes over HTTP are not there.
"""

from support.fake_kube_api.faults import (
    Answer,
    Drop,
    Fault,
    Hang,
    Stream,
    bad_gateway,
    error_event,
    forbidden,
    gone,
    status,
    throttled,
    throttled_text,
    too_large_version,
    unauthorized,
    watch_event,
)
from support.fake_kube_api.server import Asked, FakeKubeApi, fake_kube_api
from support.fake_kube_api.store import Collection

__all__ = [
    "Answer",
    "Asked",
    "Collection",
    "Drop",
    "FakeKubeApi",
    "Fault",
    "Hang",
    "Stream",
    "bad_gateway",
    "error_event",
    "fake_kube_api",
    "forbidden",
    "gone",
    "status",
    "throttled",
    "throttled_text",
    "too_large_version",
    "unauthorized",
    "watch_event",
]
