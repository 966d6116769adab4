"""The client library and the commands with a token, against a running service."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import trustme

from global_discovery.client import (
    CallFailed,
    PoolCache,
    PoolHeartbeat,
    TlsSettings,
    list_pools,
    watch_pools,
)
from global_discovery.client.tls import keeps_tokens
from global_discovery.serving.access.reviews import TokenCluster
from support.access import AUDIENCE, ISSUER, NOTHING, HandReviewer, a_token, in_file
from support.access_world import AccessWorld, an_access_world
from support.certificates import HOST, a_pair, in_files
from support.client_process import ran
from support.grpc_calls import eventually
from support.pools import a_registration
from support.running import a_service

PATIENCE_SECONDS = 30


class Client:
    """A service over TLS that looks at tokens, and a client's files."""

    def __init__(self, folder: Path, ca: trustme.CA, reviewer: HandReviewer) -> None:
        self.reviewer = reviewer
        self.ca, self.token = folder / "client-ca.pem", folder / "token"
        self.ca.write_bytes(ca.cert_pem.bytes())
        self.show(reviewer.accept(a_token()))
        self.ports = {"grpc": 0, "rest": 0}

    def show(self, token: str) -> None:
        """As kubelet replaces it."""
        fresh = self.token.with_name("token.new")
        fresh.write_text(token)
        fresh.rename(self.token)

    @property
    def settings(self) -> TlsSettings:
        return TlsSettings(self.ca, token_path=self.token)

    def server(self, face: str) -> str:
        scheme = "https://" if face == "rest" else ""
        return f"{scheme}{HOST}:{self.ports[face]}"


@pytest.fixture
async def client(tmp_path: Path, ca: trustme.CA) -> AsyncIterator[Client]:
    reviewer = HandReviewer()
    made = Client(tmp_path, ca, reviewer)
    # Tokens that end by this machine's clock would end by the service's too.
    async with a_service(
        tls=in_files(tmp_path, a_pair(ca)),
        policy=in_file(tmp_path),
        anonymous=NOTHING,
        token_audience=AUDIENCE,
        token_clusters=[TokenCluster("east", ISSUER, reviewer)],
    ) as service:
        made.show(reviewer.accept(a_token(exp=None)))
        made.ports = {"grpc": service.grpc.port, "rest": service.rest.port}
        yield made


@pytest.mark.parametrize("face", ["grpc", "rest"])
async def test_a_heartbeat_shows_its_token_and_a_new_one_once_it_is_there(
    client: Client, face: str
) -> None:
    states: asyncio.Queue[object] = asyncio.Queue()
    heartbeat = PoolHeartbeat(
        [client.server(face)], tls=client.settings, on_state=states.put_nowait
    )
    heartbeat.set(a_registration(cluster="east"))
    running = asyncio.create_task(heartbeat.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await states.get()
        assert heartbeat.state.lease is not None
        second = client.reviewer.accept(a_token("second", exp=None))
        client.show(second)
        heartbeat.set(a_registration(cluster="east", model="other"))
        await eventually(lambda: second in client.reviewer.asked)
        await heartbeat.stop(withdraw=True)
        await running


@pytest.mark.parametrize("face", ["grpc", "rest"])
@pytest.mark.parametrize(
    ("shown", "cluster", "code"),
    [
        ("refused", "east", grpc.StatusCode.UNAUTHENTICATED),
        ("good", "west", grpc.StatusCode.PERMISSION_DENIED),
    ],
)
async def test_a_refused_heartbeat_says_why_and_goes_on_until_it_is_taken(
    client: Client, face: str, shown: str, cluster: str, code: grpc.StatusCode
) -> None:
    good = client.token.read_text()
    if shown == "refused":
        client.show(a_token("nobody", exp=None))
    failed = asyncio.Event()
    heartbeat = PoolHeartbeat(
        [client.server(face)], tls=client.settings, on_state=lambda _: failed.set()
    )
    heartbeat.set(a_registration(cluster=cluster))
    running = asyncio.create_task(heartbeat.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await failed.wait()
        error = heartbeat.state.last_error
        assert isinstance(error, CallFailed)
        assert error.code is code
        assert all(part not in str(error) for part in client.token.read_text().split("."))
        client.show(good)
        heartbeat.set(a_registration(cluster="east"))
        await eventually(lambda: heartbeat.state.lease is not None)
        await heartbeat.stop(withdraw=False)
        await running


async def test_lists_watches_and_caches_show_the_token(client: Client) -> None:
    server, settings = client.server("grpc"), client.settings
    assert (await list_pools([server], tls=settings)).entries == ()
    async with watch_pools([server], tls=settings) as watch:
        assert (await anext(aiter(watch))).connection.connected
    for face in ("grpc", "rest"):
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            PoolCache([client.server(face)], tls=settings) as cache,
        ):
            await cache.wait_synced()
    with pytest.raises(CallFailed) as failed:
        await list_pools([server], tls=TlsSettings(client.ca))
    assert failed.value.code is grpc.StatusCode.UNAUTHENTICATED


async def test_a_token_that_cannot_be_read_fails_the_call_and_names_the_file(
    client: Client,
) -> None:
    client.token.write_text("two words")
    with pytest.raises(CallFailed, match="token: has no token") as failed:
        await list_pools([client.server("grpc")], tls=client.settings)
    assert "two words" not in str(failed.value)
    client.token.unlink()
    with pytest.raises(CallFailed, match="token"):
        await list_pools([client.server("grpc")], tls=client.settings)


@pytest.mark.parametrize(
    ("server", "kept"),
    [
        ("discovery.example:50051", True),
        ("https://discovery.example", True),
        ("http://discovery.example", False),
        ("HTTP://10.0.0.1:8080", False),
        ("http://127.0.0.1:8080", True),
        ("http://[::1]:8080/x", True),
        ("http://localhost", True),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://user@127.0.0.1@evil.example", False),
    ],
)
def test_a_token_goes_over_tls_or_stays_on_this_machine(server: str, *, kept: bool) -> None:
    assert keeps_tokens(server) is kept


def test_a_server_that_would_see_a_token_in_plain_text_is_refused(tmp_path: Path) -> None:
    settings, servers = TlsSettings(token_path=tmp_path / "token"), ["http://discovery.example"]
    for refused in (PoolHeartbeat, PoolCache):
        with pytest.raises(ValueError, match="without TLS"):
            refused(servers, tls=settings)


async def test_a_token_is_shown_over_http_on_the_loopback(tmp_path: Path) -> None:
    reviewer = HandReviewer()
    (tmp_path / "token").write_text(reviewer.accept(a_token()) + "\n")
    async with an_access_world(
        anonymous=NOTHING,
        token_audience=AUDIENCE,
        token_clusters=[TokenCluster("east", ISSUER, reviewer)],
    ) as world:
        assert await _synced(world, TlsSettings(token_path=tmp_path / "token"))


async def _synced(world: AccessWorld, settings: TlsSettings) -> bool:
    server = f"http://127.0.0.1:{world.service.rest.port}"
    async with asyncio.timeout(PATIENCE_SECONDS), PoolCache([server], tls=settings) as cache:
        await cache.wait_synced()
    return True


async def test_the_commands_take_a_token(client: Client) -> None:
    flags = [f"--server={client.server('grpc')}", f"--ca-path={client.ca}"]
    listed = await ran("pools", *flags, f"--token-path={client.token}")
    assert listed.status == 0, listed
    refused = await ran("pools", *flags)
    assert refused.status == 1
    assert "identity" in refused.err
    bad = await ran("pools", *flags, f"--token-path={client.token}.absent")
    assert (bad.status, "--token-path" in bad.err) == (2, True)


async def test_the_relay_refuses_to_show_a_token_without_tls(client: Client) -> None:
    refused = await ran(
        "relay",
        "--cluster-id=east",
        "--pool=ns/pool",
        "--region=r",
        "--frontend=http://10.0.0.1:8000",
        "--server=http://discovery.example",
        f"--token-path={client.token}",
    )
    assert (refused.status, "--token-path" in refused.err) == (2, True)
