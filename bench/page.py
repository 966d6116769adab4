"""What docs/performance.md says around its tables."""

INTRODUCTION = """\
# Performance

This page is written by `make bench`; do not edit it.

{machine}

## How to read it

Every row was measured in one run: the service (*ours*), a server with the same transport whose
handlers do nothing (*bare*), and one etcd node where it has the same job. The sides take turns,
round by round; a figure is the median of the rounds, a ratio the median of the ratios of paired
rounds. So a ratio means something on any machine, and the figures only on this one. Differences
under 10 % are noise. An aim such as `≥ 0.9 bare` is one for the ratio to that side.

The servers are processes of their own, the load is one process beside them, everything is on
loopback. All sides are asked by the same small clients (`bench/h2.py`, `bench/http1.py`), which
cost a few microseconds a message, so that it is the server that sets the pace. *CPU* is what the
server process used, divided by what it did: the steadiest figure on a machine that does other
things too.

While it is measured, our view is `ESTIMATED` (its first lease has not passed), which costs it a
little. Pools have four frontends and about 340 bytes.
"""

NOTES = {
    "a": """\
Each call carries the whole registration, the current `lease_id` and a growing `sequence`, as our
own client's heartbeats do. The bare handler takes the same bytes and answers with as many; it
neither parses nor keeps anything. Relays call with the grpc.aio client; the raw client costs less
than a server and shows the difference between the servers undiluted.""",
    "b": """\
10,000 leases, renewed by their ids in batches of 1,000 or 10,000; etcd renews 10,000 leases over
eight streams that never wait for an answer. A renewal is one lease renewed.""",
    "c": """\
*One change*: a relay registers a changed content; the delay runs from before its call to the
arrival at each of the 1,000 watchers. The bare fan-out wakes one future for each watcher and
writes a message of the same size.

*500/s*: that many pools change each second, for some seconds; a delivery is one change at one
watcher, and all are waited for. Here the bare fan-out is handed the same merged messages at the
same pace: it shows what the bytes alone cost, and its lag leaves out the merging.

*At once*: all changes are sent without pausing; the bare fan-out writes one message a change. etcd
spreads this over all cores and we use one: CPU a delivery compares the work itself.""",
    "d": """\
From the request to the first and to the last part of the snapshot. The bare handler writes the
same parts, kept in memory; etcd answers a Range over 10,000 keys with the same values. The first
watcher after a start waits for each pool to be encoded once.""",
    "e": """\
Eight connections that are kept, one request at a time on each. The bare aiohttp handler returns
the same bytes and headers; with `If-None-Match` both answer 304. For a POST it reads the body and
answers with as many bytes as we do.""",
    "f": """\
Anonymous resident memory, before and after: idle watchers of an empty list over 20 connections;
registered pools with one lease each, in etcd a key with a lease. The memory of etcd's mapped data
file does not count.""",
}
