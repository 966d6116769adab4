"""What a caller is told when something is wrong, and what it is never told."""

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import grpc
import pytest
from structlog.typing import EventDict

from global_discovery.domain import errors as domain_errors
from global_discovery.domain.errors import DiscoveryError, StoreUnwritable
from global_discovery.serving.grpc import errors
from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.grpc_calls import Stub, Watch, eventually, refused
from support.pools import a_registration

SERVICE = "/global_discovery.v1.PoolDiscoveryService/"
UNARY = ["RegisterPool", "RenewPools", "DeregisterPool", "ListPools", "ListRouters", "ExplainPool"]
STREAMS = ["WatchPools", "WatchRouters"]
INVALID = grpc.StatusCode.INVALID_ARGUMENT
INTERNAL_TEXT = "of /etc/passwd on host.internal"

RawCall = Callable[..., Any]


@pytest.fixture
def raw(channel: Any) -> RawCall:
    """Sends bytes to a method; awaits the first answer's bytes."""

    async def first(call: Any) -> Any:
        return await call.read()

    def send(method: str, data: bytes, **options: Any) -> Any:
        path = method if method.startswith("/") else SERVICE + method
        if method in STREAMS:
            return first(channel.unary_stream(path)(data, **options))
        return channel.unary_unary(path)(data, **options)

    return send


class TestWhatIsNoRequest:
    @pytest.mark.parametrize("method", UNARY + STREAMS)
    async def test_garbage_is_an_invalid_argument(self, raw: RawCall, method: str) -> None:
        error = await refused(raw(method, b"\xff\xff\xff\xff"))
        assert (error.code, error.reason, error.domain) == (
            INVALID,
            "INVALID_ARGUMENT",
            "global-discovery",
        )
        assert error.fields == ["request"]

    @pytest.mark.parametrize(
        ("method", "data"),
        [
            ("RegisterPool", b"\x12\x02\xff\xfe"),
            ("RenewPools", b"\x0a\x02\xc3\x28"),
            ("DeregisterPool", b"\x12\x03\xed\xa0\x80"),
            ("ListPools", b"\x1a\x01\x80"),
            ("WatchPools", b"\x12\x01\xff"),
            ("WatchRouters", b"\x0a\x01\xff"),
        ],
    )
    async def test_so_is_text_that_is_no_utf8(self, raw: RawCall, method: str, data: bytes) -> None:
        error = await refused(raw(method, data))
        assert (error.code, error.fields) == (INVALID, ["request"])

    @pytest.mark.parametrize("length", range(1, 50, 7))
    async def test_so_is_a_request_that_was_cut_short(self, raw: RawCall, length: int) -> None:
        whole = pb.RegisterPoolRequest(registration=a_registration()).SerializeToString()
        error = await refused(raw("RegisterPool", whole[:length]))
        assert error.code is INVALID

    async def test_unknown_fields_are_ignored(self, raw: RawCall) -> None:
        whole = pb.RegisterPoolRequest(registration=a_registration()).SerializeToString()
        unknown = b"\xfa\x7f\x03abc" + b"\xf0\x7f\x07"
        lease = pb.RegisterPoolResponse.FromString(await raw("RegisterPool", whole + unknown))
        assert lease.lease_id

    @pytest.mark.parametrize(
        "path", [SERVICE + "Nothing", SERVICE + "registerpool", "/other.Service/Call", "/x"]
    )
    async def test_an_unknown_method_is_unimplemented(self, raw: RawCall, path: str) -> None:
        assert (await refused(raw(path, b""))).code is grpc.StatusCode.UNIMPLEMENTED


class TestViolations:
    async def test_an_empty_registration_names_all_that_is_required(self, stub: Stub) -> None:
        error = await refused(stub.RegisterPool(pb.RegisterPoolRequest()))
        assert error.code is INVALID
        required = {"cluster_id", "namespace", "dgd_name", "model", "location.region"}
        assert set(error.fields) == required

    async def test_every_offending_field_is_named_and_nothing_is_stored(
        self, service: Service, stub: Stub
    ) -> None:
        bad = a_registration(frontends=["http://good", "ftp://bad", "http://u@bad"])
        bad.key.namespace = "a/b"
        bad.model = "tab\there"
        bad.relays.append("10.0.0.1")
        bad.capacity.append(pool_pb2.Capacity(gpu_sku="H100", gpu_count=-1))
        error = await refused(stub.RegisterPool(pb.RegisterPoolRequest(registration=bad)))
        assert set(error.fields) == {
            "namespace",
            "model",
            "frontends[1]",
            "frontends[2]",
            "relays[0]",
            "capacity[0].gpu_count",
        }
        assert len(service.core.registrations) == 0

    async def test_the_rest_of_very_many_is_counted_and_the_answer_still_arrives(
        self, stub: Stub
    ) -> None:
        """Twenty times: above its soft limit a client refuses metadata at random."""
        bad = a_registration(frontends=[f"http://10.0.0.1:1/\u00e9{n}" for n in range(1024)])
        bad.relays.extend(f"ip:{number}" for number in range(256))
        bad.key.cluster_id = bad.key.namespace = bad.key.dgd_name = "/" * 300
        for _ in range(20):
            error = await refused(stub.RegisterPool(pb.RegisterPoolRequest(registration=bad)))
            assert error.code is INVALID
            assert len(error.fields) == 32
            assert error.metadata == {"more_violations": str(1024 + 256 + 3 - 32)}
            assert len(error.message.encode()) <= 1100

    @pytest.mark.parametrize("field", ["models", "regions", "cluster_ids", "namespaces"])
    async def test_a_filter_with_too_many_values(self, stub: Stub, field: str) -> None:
        wanted = pb.PoolFilter(**{field: map(str, range(257))})
        listing = await refused(stub.ListPools(pb.ListPoolsRequest(filter=wanted)))
        watching = await Watch(stub, pb.WatchPoolsRequest(filter=wanted)).end()
        assert watching is not None
        assert listing.fields == watching.fields == [f"filter.{field}"]

    async def test_a_negative_page_size(self, stub: Stub) -> None:
        error = await refused(stub.ListPools(pb.ListPoolsRequest(page_size=-1)))
        assert (error.code, error.fields) == (INVALID, ["page_size"])

    @pytest.mark.parametrize("token", ["x", "nonsense-that-is-no-token"])
    async def test_a_damaged_page_token(self, stub: Stub, token: str) -> None:
        error = await refused(stub.ListPools(pb.ListPoolsRequest(page_token=token)))
        assert (error.code, error.fields) == (INVALID, ["page_token"])

    @pytest.mark.parametrize(
        ("relay_id", "lease_id", "field"),
        [
            ("x" * 129, "", "relay_id"),
            ("tab\t", "", "relay_id"),
            ("\u00e9", "", "relay_id"),
            ("", "x" * 65, "lease_id"),
        ],
    )
    async def test_ids_that_are_too_long_or_unprintable(
        self, stub: Stub, relay_id: str, lease_id: str, field: str
    ) -> None:
        call = pb.RegisterPoolRequest(
            registration=a_registration(), relay_id=relay_id, lease_id=lease_id
        )
        assert (await refused(stub.RegisterPool(call))).fields == [field]

    async def test_a_withdrawal_without_a_key(self, stub: Stub) -> None:
        error = await refused(stub.DeregisterPool(pb.DeregisterPoolRequest()))
        assert set(error.fields) == {"cluster_id", "namespace", "dgd_name"}


class TestSizes:
    def padded(self, size: int) -> bytes:
        """A valid call of about so many bytes, most of them in a field that nobody knows."""
        whole = pb.RegisterPoolRequest(registration=a_registration()).SerializeToString()
        return whole + b"\xfa\x7f" + _varint(size) + b"x" * size

    async def test_a_message_of_nearly_a_mebibyte_is_taken(self, raw: RawCall) -> None:
        await raw("RegisterPool", self.padded(1024 * 1024 - 200))

    async def test_a_larger_one_is_resource_exhausted(self, raw: RawCall) -> None:
        error = await refused(raw("RegisterPool", self.padded(1024 * 1024)))
        assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED

    async def test_metadata_above_8_kib_is_resource_exhausted(
        self, raw: RawCall, stub: Stub
    ) -> None:
        error = await refused(raw("ListPools", b"", metadata=(("x-large", "x" * 8200),)))
        assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        await stub.ListPools(pb.ListPoolsRequest())

    async def test_metadata_below_it_is_taken(self, raw: RawCall) -> None:
        await raw("ListPools", b"", metadata=(("x-large", "x" * 7000),))


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def breaks(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(INTERNAL_TEXT)


@pytest.mark.usefixtures("expect_faults")
class TestFaultsOfOurs:
    @pytest.fixture
    def broken(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        core = service.core
        for owner, name in [
            (core.registrations, "register"),
            (core.registrations, "renew"),
            (core.registrations, "find"),
            (core.registrations, "explain"),
            (core.pools, "snapshot"),
            (core.routers, "snapshot"),
        ]:
            monkeypatch.setattr(owner, name, breaks)
        yield
        monkeypatch.undo()

    @pytest.fixture
    def requests(self) -> dict[str, bytes]:
        key = a_registration().key
        return {
            "RegisterPool": pb.RegisterPoolRequest(
                registration=a_registration()
            ).SerializeToString(),
            "DeregisterPool": pb.DeregisterPoolRequest(key=key).SerializeToString(),
            "ExplainPool": pb.ExplainPoolRequest(key=key).SerializeToString(),
        }

    @pytest.mark.parametrize("method", UNARY)
    @pytest.mark.usefixtures("broken")
    async def test_a_call_is_told_nothing_but_a_request_id(
        self, raw: RawCall, requests: dict[str, bytes], method: str, logged: list[EventDict]
    ) -> None:
        error = await refused(raw(method, requests.get(method, b"")))
        assert (error.code, error.message, error.reason, error.domain) == (
            grpc.StatusCode.INTERNAL,
            "internal error",
            "INTERNAL",
            "global-discovery",
        )
        (line,) = [line for line in logged if line["event"] == "internal_error"]
        assert error.metadata == {"request_id": line["request_id"]}
        assert line["method"] == method

    @pytest.mark.parametrize("method", STREAMS)
    @pytest.mark.usefixtures("broken")
    async def test_a_stream_is_told_no_more(
        self, channel: Any, method: str, logged: list[EventDict]
    ) -> None:
        async def read_all() -> None:
            async for _ in channel.unary_stream(SERVICE + method)(b""):
                pass

        error = await refused(read_all())
        assert (error.code, error.message) == (grpc.StatusCode.INTERNAL, "internal error")
        (line,) = [line for line in logged if line["event"] == "internal_error"]
        assert error.metadata == {"request_id": line["request_id"]}

    async def test_a_stream_that_runs_is_told_no_more_and_others_run_on(
        self,
        service: Service,
        stub: Stub,
        monkeypatch: pytest.MonkeyPatch,
        logged: list[EventDict],
    ) -> None:
        watch = Watch(stub, pb.WatchPoolsRequest(filter=pb.PoolFilter(models=["m"])))
        other = Watch(stub)
        await watch.begun()
        await other.begun()
        since = service.core.pools.since
        monkeypatch.setattr(
            service.core.pools,
            "since",
            lambda at, wanted: since(at, wanted) if wanted.matches_all else breaks(),
        )
        await stub.RegisterPool(pb.RegisterPoolRequest(registration=a_registration()))
        await other.until(lambda client: len(client.fold) == 1)
        end = await watch.end()
        assert end is not None
        assert (end.code, end.message) == (grpc.StatusCode.INTERNAL, "internal error")
        assert "internal_error" in [line["event"] for line in logged]

    async def test_the_texts_stand_in_the_log(
        self,
        service: Service,
        stub: Stub,
        monkeypatch: pytest.MonkeyPatch,
        logged: list[EventDict],
    ) -> None:
        monkeypatch.setattr(service.core.registrations, "renew", breaks)
        error = await refused(stub.RenewPools(pb.RenewPoolsRequest()))
        assert INTERNAL_TEXT not in str(error)
        (line,) = [line for line in logged if line["event"] == "internal_error"]
        assert line["exc_info"]

    async def test_the_call_is_counted(
        self,
        service: Service,
        stub: Stub,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(service.core.registrations, "renew", breaks)
        await refused(stub.RenewPools(pb.RenewPoolsRequest()))
        labels = {"face": "grpc", "method": "RenewPools", "code": "INTERNAL"}
        count = service.registry.get_sample_value
        await eventually(lambda: count("global_discovery_calls_total", labels) == 1)


class TestStatuses:
    def test_every_error_of_the_domain_has_a_code(self) -> None:
        kinds = [
            kind
            for kind in vars(domain_errors).values()
            if isinstance(kind, type)
            and issubclass(kind, DiscoveryError)
            and kind is not DiscoveryError
        ]
        assert len(kinds) >= 9
        assert {kind for kind in kinds if kind not in errors._CODES} == set()

    async def test_a_client_that_is_gone_cannot_be_answered(self) -> None:
        """gRPC may notice it while it sends the status; when, is its own affair."""

        class Gone:
            async def abort(self, *_: Any, **__: Any) -> NoReturn:
                raise grpc.aio.InternalError

        status = errors.internal_status("id")
        with pytest.raises(asyncio.CancelledError):
            await errors.abort(Gone(), status, "i")  # type: ignore[arg-type]  # as much of a Context

    async def test_a_store_that_does_not_take_it_is_unavailable_with_a_time_to_retry(
        self,
        service: Service,
        stub: Stub,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        async def put(*_: Any) -> None:
            raise StoreUnwritable(retry_after=0.0015)

        monkeypatch.setattr(service.core.registrar._store, "put", put)
        call = pb.RegisterPoolRequest(registration=a_registration())
        error = await refused(stub.RegisterPool(call))
        assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "STORE_UNWRITABLE")
        assert error.retry_seconds == math.ceil(1.5) / 1000
        assert len(service.core.registrations) == 1, "it counts here"

    async def test_refusals_are_counted_by_reason(self, service: Service, stub: Stub) -> None:
        await refused(stub.RegisterPool(pb.RegisterPoolRequest()))
        labels = {"face": "grpc", "reason": "INVALID_ARGUMENT"}
        assert service.registry.get_sample_value("global_discovery_rejections_total", labels) == 1


async def test_a_withdrawal_and_a_watch_are_refused_with_every_field_at_once(stub: Stub) -> None:
    key = pool_pb2.PoolKey(cluster_id="..", namespace="n", dgd_name="d")
    withdrawal = pb.DeregisterPoolRequest(key=key, relay_id="é", relays=["z"])
    refusal = await refused(stub.DeregisterPool(withdrawal))
    assert set(refusal.fields) == {"cluster_id", "relay_id", "relays[0]"}
    watch = pb.WatchPoolsRequest(position="!", idle_interval_secs=99)
    refusal = await refused(stub.WatchPools(watch).read())
    assert set(refusal.fields) == {"position", "idle_interval_secs"}
