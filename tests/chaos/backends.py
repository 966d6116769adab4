"""What servers stand on: a disk that fills up, a table behind links, an API server."""

import asyncio
import contextlib
import ctypes
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from chaos.links import Link, a_link
from global_discovery.domain.clock import SystemClock
from global_discovery.storage.dynamodb.table import create_table
from support import dynamodb_server
from support.access import AUDIENCE, a_token
from support.dynamodb_server import REGION, DynamoDBServer
from support.fake_kube_api import FakeKubeApi, fake_kube_api
from support.kube_apiserver import PATIENCE_SECONDS, ControlPlane, Refused, a_control_plane
from support.kube_objects import Object, a_namespace, collection
from support.manifests import composed, rendered

DISK_MIB = 4
_ACCOUNT = "global-discovery"
NAMESPACE = "llm"
"""Of all pools, and of their service accounts."""
TOKEN_SECONDS = 7 * 86_400
"""Far longer than a wall clock is stepped."""


class Disk:
    """A file system of a few MiB; `real` is False where none may be mounted."""

    def __init__(self, folder: Path, *, real: bool) -> None:
        self.folder = folder
        self.real = real

    def fill(self) -> None:
        """Until nothing more can be written."""
        with contextlib.suppress(OSError), (self.folder / "filler").open("wb", 0) as filler:
            for size in (65_536, 4_096, 512, 1):
                with contextlib.suppress(OSError):
                    while True:
                        filler.write(b"x" * size)

    def empty(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)


@contextlib.contextmanager
def a_disk(folder: Path) -> Iterator[Disk]:
    """A tmpfs of its own, which takes a right that not everybody has."""
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    size = f"size={DISK_MIB}m".encode()
    mounted = libc.mount(b"chaos", os.fsencode(folder), b"tmpfs", 0, size) == 0
    try:
        yield Disk(folder, real=mounted)
    finally:
        if mounted:
            libc.umount2(os.fsencode(folder), 2)  # MNT_DETACH


class Table:
    """A table, and each slot's link to it."""

    def __init__(self, server: DynamoDBServer, name: str, links: dict[str, Link]) -> None:
        self.links = links
        self._server = server
        self._name = name

    def flags(self, slot: str) -> list[str]:
        return [
            *("--registration-storage", "dynamodb", "--dynamodb-table", self._name),
            *("--dynamodb-region", REGION),
            *("--dynamodb-endpoint-url", f"http://127.0.0.1:{self.links[slot].port}"),
        ]

    @property
    def environment(self) -> dict[str, str]:
        return self._server.environment


@contextlib.asynccontextmanager
async def a_table(slots: list[str]) -> AsyncIterator[Table]:
    """On a server of its own."""
    async with contextlib.AsyncExitStack() as stack:
        server = stack.enter_context(dynamodb_server.dynamodb_server())
        name = dynamodb_server.new_table_name()
        api = server.reached(SystemClock())
        await create_table(api, name, asyncio.sleep)
        await api.close()
        links = {slot: await stack.enter_async_context(a_link()) for slot in slots}
        for link in links.values():
            link.lead_to(server.port)
        yield Table(server, name, links)


class Api(Protocol):
    """An API server with EndpointSlices, behind a link."""

    link: Link

    @property
    def kubeconfig(self) -> Path: ...

    async def put(self, item: Object) -> None: ...

    async def restart(self) -> None: ...

    async def rotate_token(self) -> None:
        """Of whoever watches slices."""
        ...

    async def token_for(self, account: str) -> str:
        """Another token of a service account in the namespace of the pools."""
        ...


class FakeApi:
    """Our own API server, in this process."""

    def __init__(self, api: FakeKubeApi, link: Link, folder: Path) -> None:
        self.link = link
        self._api = api
        self._folder = folder
        self._tokens = self._granted = 0
        link.lead_to(api.port)
        port, api.port = api.port, link.port
        self.kubeconfig = api.kubeconfig(folder, tokenFile=str(folder / "token"))
        api.port = port
        self._new_token()

    async def put(self, item: Object) -> None:
        self._api.put(item)

    async def restart(self) -> None:
        """What callers see of it: every watch breaks, and versions are gone."""
        self.link.refuses = True
        self.link.cut()
        self._api.compact()
        await asyncio.sleep(1.0)
        self.link.refuses = False

    async def rotate_token(self) -> None:
        self._new_token()
        self._api.reset_watches()

    async def token_for(self, account: str) -> str:
        self._granted += 1
        token = a_token(
            sub=f"system:serviceaccount:{NAMESPACE}:{account}",
            exp=time.time() + TOKEN_SECONDS,
            jti=f"{self._granted}",
        )
        self._api.tokens[token] = f"system:serviceaccount:{NAMESPACE}:{account}"
        return token

    def _new_token(self) -> None:
        self._tokens += 1
        fresh = self._folder / "token.new"
        fresh.write_text(f"token-{self._tokens}")
        fresh.replace(self._folder / "token")
        self._api.bearer = f"token-{self._tokens}"


class RealApi:
    """A real kube-apiserver over etcd."""

    def __init__(self, plane: ControlPlane, link: Link, kubeconfig: Path, token: str) -> None:
        self.link = link
        self.kubeconfig = kubeconfig
        self._plane = plane
        self._tokens = ["token-1"]
        self._token = token
        self._accounts: set[str] = set()
        link.lead_to(plane.port)

    async def put(self, item: Object) -> None:
        await self._plane.apply(item)

    async def restart(self) -> None:
        await self._plane.restart_apiserver()

    async def rotate_token(self) -> None:
        """A new one is there before the old one is taken back, as the kubelet does it."""
        old, name = self._token, self._tokens[-1]
        self._tokens.append(f"token-{len(self._tokens) + 1}")
        self._token = await self._plane.grant_token(_ACCOUNT, _ACCOUNT, name=self._tokens[-1])
        self._plane.write_token("service", self._token)
        await self._plane.revoke_token(_ACCOUNT, name=name, token=old)
        self.link.cut()

    async def token_for(self, account: str) -> str:
        """As the kubelet asks for one."""
        accounts = collection(api_version="v1", kind="ServiceAccount", namespace=NAMESPACE)
        if account not in self._accounts:
            self._accounts.add(account)
            await self._plane.create(
                {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {"name": account, "namespace": NAMESPACE},
                }
            )
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [AUDIENCE], "expirationSeconds": TOKEN_SECONDS},
        }
        granted = await self._called("POST", f"{accounts}/{account}/token", request)
        return str(granted["status"]["token"])

    async def _called(self, method: str, path: str, body: Object) -> Any:
        """Again and again while it restarts."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    return await self._plane.call(method, path, body)
                except (aiohttp.ClientError, Refused):
                    await asyncio.sleep(0.2)


@contextlib.asynccontextmanager
async def an_api(folder: Path) -> AsyncIterator[Api]:
    """A real one where its programs are, else our own; in a folder that is there."""
    async with contextlib.AsyncExitStack() as stack:
        link = await stack.enter_async_context(a_link())
        if "KUBEBUILDER_ASSETS" not in os.environ:
            fake = await stack.enter_async_context(fake_kube_api())
            yield FakeApi(fake, link, folder)
            return
        plane = await stack.enter_async_context(a_control_plane(folder))
        await plane.create(a_namespace(NAMESPACE))
        for item in rendered("karmada-hub"):
            await plane.apply(item)
        (folder / "access").mkdir()
        for item in composed(folder / "access", "overlays/registrations", "access"):
            if item["kind"].startswith("ClusterRole"):
                await plane.apply(item)
        token = await plane.grant_token(_ACCOUNT, _ACCOUNT, name="token-1")
        kubeconfig = plane.kubeconfig("service", token=token, port=link.port)
        yield RealApi(plane, link, kubeconfig, token)
