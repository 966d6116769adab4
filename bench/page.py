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
under 10 % are noise. An aim such as `≥ 0.9 bare` is one for the ratio to that side. Tables g, h
and j compare the service over its three stores in the same way, i two replicas with each other, and
k heartbeats with and without an abuser.

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
    "g": """\
RegisterPool and RenewPools with the raw client, over four connections. A new pool is answered when
it is stored. The SQLite file lies on the disk of `/var/tmp`; 32 calls at a time share its writes,
and what it writes after its answers is counted as well.

DynamoDB is a small server (`bench/dynamodb_server.py`) that answers from memory, at once, in the
real protocol and over TLS. So *CPU* is what the service itself spends, and a rate is that of one
instance which no network slows down, though here it shares the cores with that server and the
load. The real one takes some milliseconds for each write and has 64 of one instance under way,
which leaves room for about 10,000 a second. A new pool is two writes, a heartbeat or a renewal one.
The table is read once a minute here, so that no reading is counted.""",
    "h": """\
10,000 pools are registered with each store. First relays send 500 heartbeats a second, which is
what a quarter of them do at an interval of 5 s, or one of four replicas would take; then nobody
calls. DynamoDB's table is read each second.

*Longest hold of the loop*: `/livez`, which the event loop answers, is asked every 2 ms; the figure
is the most CPU that the process used between such a question and its answer.""",
    "i": """\
Both read the table each second. *A change*: A takes 25 a second; the delay runs from before the
call until it is at a watcher of A and at one of B. *CPU* and the hold: A takes the renewals of all
10,000 pools in 5 s, in batches of 100, and B takes no calls. So what B spends is what each further
replica spends on reading, with a fifth of the items renewed each time.""",
    "j": """\
From the start of the process until it says that it is ready, with a file that has so many pools;
with `memory` there is nothing to be read, so that its figures are what a start costs by itself.""",
    "k": """\
5,000 pools are registered; 200 heartbeats a second of 1,000 relays are measured, half of them over
each face, without an abuser (*alone*) and beside one, in turn; a p99 is that of the 800 calls of
all rounds of a side. The abuser (`bench/abuser.py`) is a process of its own with an address of its
own, does one thing as fast as it is let, from up to 256 calls or connections at a time (2,000 of
the slow ones), and is nice: what it spends itself is not to be measured, though on two cores it is,
in part. *No calls* is a process that computes and leaves the service alone: what the machine itself
does to a p99. *CPU* is what the service uses in all. [limits.md](limits.md) tells what holds it
back.""",
}
