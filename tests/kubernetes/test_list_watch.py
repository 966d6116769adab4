"""One list and watch against the fake API server: after every fault its set is the right one."""

from pathlib import Path

import pytest

from global_discovery.domain.events import Event
from global_discovery.kubernetes.failures import Failure
from global_discovery.kubernetes.figures import Relist
from support.fake_kube_api import (
    Answer,
    Drop,
    Fault,
    Stream,
    bad_gateway,
    error_event,
    fake_kube_api,
    forbidden,
    gone,
    status,
    throttled,
    throttled_text,
    too_large_version,
    unauthorized,
    watch_event,
)
from support.kube_reading import a_slice, reading


async def test_what_is_there_and_what_changes_reaches_the_sink(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        api.put(a_slice("a"))
        it.drive()
        await it.right_again()
        await it.following()
        api.put(a_slice("b", endpoints=None))
        api.put(a_slice("a", endpoints=[]))
        api.delete("ns", "b")
        await it.until(lambda: it.sink.calls.count("deleted"))
        assert it.right()
        assert it.sink.calls == ["replaced", "in_sync", "put", "put", "deleted"]
        assert api.count() == 2


async def test_an_object_that_leaves_the_selector_is_deleted_and_may_return(
    tmp_path: Path,
) -> None:
    async with (
        fake_kube_api() as api,
        reading(api, tmp_path, label_selector="app in (x, y),!hidden") as it,
    ):
        it.drive()
        await it.following()
        api.put(a_slice("a"))
        api.put(a_slice("b", labels={"app": "z"}))
        api.put(a_slice("c", labels={"app": "x", "hidden": ""}))
        await it.until(lambda: it.sink.calls.count("put") == 1)
        assert set(it.sink.items) == {("ns", "a")}
        api.put(a_slice("a", labels={}))
        await it.until(lambda: not it.sink.items)
        api.put(a_slice("a", labels={"app": "y"}))
        await it.until(lambda: ("ns", "a") in it.sink.items)


async def test_a_list_is_read_in_pages_and_counts_once(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        for number in range(1201):
            api.put(a_slice(f"s{number}"))
        it.drive()
        await it.right_again()
        assert it.sink.calls[:2] == ["replaced", "in_sync"]
        assert (api.count("list"), api.count("continue")) == (1, 2)
        await it.following()
        assert it.reader.figures.requests == 2
        assert api.asked[-1].params["resourceVersion"] == str(api.store.version)


async def test_a_list_whose_place_expires_between_pages_begins_again(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        for number in range(501):
            api.put(a_slice(f"s{number}"))
        api.fail_next(gone(), verb="continue")
        it.drive()
        await it.right_again()
        assert it.sink.calls[:2] == ["replaced", "in_sync"]
        assert (api.count("list"), api.count("continue")) == (2, 2)


FAULTS_OF_ANY_CALL: dict[str, Fault] = {
    "429 as text": throttled_text(),
    "429 as JSON": throttled(),
    "502 as HTML": bad_gateway(),
    "500": status(500, "InternalError"),
    "504 too large": too_large_version(),
    "403": forbidden(),
    "401": unauthorized(),
    "400": status(400, "BadRequest"),
    "404": Answer(404, b"404 page not found", {}, "text/plain"),
    "a body that is none": Answer(503, b"\xff\x00"),
    "no answer": Drop(),
}
FAULTS_OF_A_WATCH: dict[str, Fault] = {
    "410": gone(),
    "410 as an event": Stream(error_event()),
    "410 as an event without reason": Stream(watch_event("ERROR", {"code": 410})),
    "an ERROR of nothing": Stream(watch_event("ERROR", {})),
    "an ERROR whose object is no Status": Stream(b'{"type":"ERROR","object":5}\n'),
    "429 as an event": Stream(error_event(429, "TooManyRequests", retryAfter=1)),
    "500 as an event": Stream(error_event(500, "InternalError")),
    "401 as an event": Stream(error_event(401, "Unauthorized")),
    "504 as an event": Stream(error_event(504, "Timeout")),
    "nothing": Stream(),
    "blank lines": Stream(b"\n \n\n"),
    "half a line": Stream(b'{"type":"ADDED","obj'),
    "half a line, then a reset": Stream(b'{"type":"ADDED","obj', "reset"),
    "no JSON": Stream(b"Bad Gateway\n"),
    "a string": Stream(b'"x"\n'),
    "an unknown type": Stream(watch_event("WHAT", a_slice("x"))),
    "an object without metadata": Stream(watch_event("ADDED", {})),
    "deep nesting": Stream(b'{"type":"ADDED","object":' + b"[" * 200_000 + b"\n"),
    "bytes that are no UTF-8": Stream(b'{"type":"ADDED\xff","object":{}}\n'),
    "a line of 5 MiB": Stream(b"x" * (5 * 1024 * 1024) + b"\n"),
    "a reset": Stream(b"", "reset"),
}
FAULTS_OF_A_LIST: dict[str, Fault] = {
    "no JSON": Answer(200, b"<html>"),
    "no version": Answer(200, b'{"metadata":{},"items":[]}'),
    "no items at all": Answer(200, b'{"items":null}'),
    "half": Answer(200, b'{"metadata":{"resourceVersion":"1"},"items":[{'),
    "cut": Stream(b'{"metadata"', "reset"),
    "410": gone(),
}


@pytest.mark.parametrize("name", [*FAULTS_OF_ANY_CALL, *FAULTS_OF_A_WATCH])
async def test_a_watch_that_cannot_be_opened_or_breaks_leads_back_to_the_right_set(
    name: str, tmp_path: Path
) -> None:
    fault = (FAULTS_OF_ANY_CALL | FAULTS_OF_A_WATCH)[name]
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        api.put(a_slice("a"))
        api.put(a_slice("b"))
        it.drive()
        await it.right_again()
        await it.following()
        # A request that finds its connection dropped is repeated once, unseen by us.
        faults = [fault, fault] if isinstance(fault, Drop) else [fault]
        api.fail_next(*faults, verb="watch")
        api.end_watches()
        await it.until(lambda: api.count("watch") == 1 + len(faults))
        api.delete("ns", "a")
        api.put(a_slice("c"))
        await it.right_again()
        assert sum(it.reader.figures.failures.values()) == 1


@pytest.mark.parametrize("name", [*FAULTS_OF_ANY_CALL, *FAULTS_OF_A_LIST])
async def test_a_list_that_fails_is_tried_again_and_nothing_of_it_counts(
    name: str, tmp_path: Path
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        api.put(a_slice("a"))
        api.fail_next((FAULTS_OF_ANY_CALL | FAULTS_OF_A_LIST)[name], verb="list")
        it.drive()
        await it.right_again()
        assert it.sink.calls[:2] == ["replaced", "in_sync"]


@pytest.mark.parametrize("name", [*FAULTS_OF_ANY_CALL, *FAULTS_OF_A_WATCH])
async def test_a_watch_that_fails_for_ever_is_asked_at_most_once_a_second_and_told_once(
    name: str, tmp_path: Path
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive(until=150)
        await it.right_again()
        await it.following()
        api.fail_always((FAULTS_OF_ANY_CALL | FAULTS_OF_A_WATCH)[name], verb="watch")
        before = api.count()
        api.end_watches()
        await it.driving
        asked = api.count() - before
        assert asked <= 20, "over any 30 s at most one a second, and ever fewer"
        told = it.said(Event.WATCH_FAILING)
        assert len(told) == 1
        assert not it.said(Event.WATCH_RECOVERED)


@pytest.mark.parametrize("name", [*FAULTS_OF_ANY_CALL, *FAULTS_OF_A_LIST])
async def test_a_list_that_fails_for_ever_is_asked_at_most_once_a_second_and_told_once(
    name: str, tmp_path: Path
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        api.fail_always((FAULTS_OF_ANY_CALL | FAULTS_OF_A_LIST)[name], verb="list")
        it.drive(until=31)
        await it.driving
        assert 2 <= api.count() <= 14
        assert len(it.said(Event.WATCH_FAILING)) == 1
        assert it.sink.calls == []


async def test_429_keeps_the_version_and_waits_as_long_as_it_is_told(tmp_path: Path) -> None:
    for fault in (throttled_text(7), throttled(7), Stream(error_event(429, "TooManyRequests"))):
        async with fake_kube_api() as api, reading(api, tmp_path) as it:
            it.drive()
            await it.following()
            api.fail_next(fault, verb="watch")
            api.end_watches()
            await api.asked_for(3, "watch")
            assert api.count("list") == 1
            assert it.reader.figures.failures == {Failure.THROTTLED: 1}
            if not isinstance(fault, Stream):
                assert it.waits[-1] >= 7


async def test_504_is_believed_after_a_few_times(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        api.fail_next(*[too_large_version()] * 3, verb="watch")
        api.end_watches()
        await api.asked_for(2, "list")
        assert "resourceVersion" not in api.asked[-1].params
        await it.following()
        assert it.reader.figures.relists == {Relist.FIRST: 1, Relist.TOO_NEW: 1}


async def test_deletions_while_no_watch_was_open_are_seen_after_410(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        api.put(a_slice("a"))
        it.drive()
        await it.right_again()
        await it.following()
        api.fail_next(Drop(), verb="watch")
        api.reset_watches()
        await it.until(lambda: not it.sink.synced)
        api.delete("ns", "a")
        api.put(a_slice("b"))
        api.compact()
        await it.right_again()
        assert set(it.sink.items) == {("ns", "b")}


async def test_an_object_of_a_list_that_cannot_be_decoded_harms_none_but_itself(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        api.put(a_slice("bad", weight="heavy"))
        api.put(a_slice("good"))
        it.drive()
        await it.until(lambda: it.sink.synced)
        assert set(it.sink.items) == {("ns", "good")}
        await it.following()
        api.put(a_slice("bad", weight="heavier"))
        api.put(a_slice("good", weight="heavy"))
        await it.until(lambda: not it.sink.items)
        api.compact()
        api.end_watches()
        api.fail_next(gone(), verb="watch")
        await it.until(lambda: it.sink.calls.count("replaced") == 2)
        told = it.said(Event.OBJECTS_UNREADABLE)
        assert [fields["example"] for fields in told] == ["ns/bad", "ns/good"]
        await it.following()
        api.put(a_slice("bad"))
        await it.until(lambda: ("ns", "bad") in it.sink.items)


async def test_an_object_of_nearly_four_megabytes_is_taken(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        it.drive()
        await it.following()
        api.put(a_slice("a", endpoints=["x" * 4_100_000]))
        await it.right_again()
        assert not it.reader.figures.failures


async def test_a_watch_goes_on_from_the_last_version_that_it_saw_in_whatever_event(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path, label_selector="app=x") as it:
        it.drive()
        for change in ("put", "delete", "elsewhere"):
            await it.following()
            if change == "delete":
                api.delete("ns", "a")
            else:
                api.put(a_slice("a", labels={"app": "x" if change == "put" else "y"}))
            if change == "elsewhere":
                await it.following()
            else:
                await it.until(lambda change=change: it.sink.calls[-1].startswith(change))
            version = str(api.store.version)
            watches = api.count("watch")
            api.end_watches()
            await api.asked_for(watches + 1, "watch")
            assert api.asked[-1].params["resourceVersion"] == version


async def test_versions_that_go_backwards_heal_with_the_periodic_list(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        api.put(a_slice("a"))
        earlier = api.store.snapshot()
        api.put(a_slice("b"))
        it.drive()
        await it.right_again()
        await it.following()
        api.restore(earlier)
        api.end_watches()
        await it.until(lambda: api.count("watch") == 2)
        await it.following()
        assert not it.right()
        for _ in range(30):
            it.timer.advance(40)
            await it.following()
        await it.right_again()
        assert it.reader.figures.relists[Relist.PERIODIC] == 1
        assert "out_of_sync" not in it.sink.calls


async def test_what_was_opened_is_closed_with_its_task(tmp_path: Path) -> None:
    async with fake_kube_api() as api:
        async with reading(api, tmp_path) as it:
            it.drive()
            await it.following()
        await api.watching(0)
