"""A real kube-apiserver over a real etcd, on loopback, as processes of the test's own.

No controller and no kubelet runs: what is written stays as it was written. Callers
are authorised by RBAC; the administrator comes with a fixed token, a ServiceAccount
with tokens that the server grants and that can be taken back one by one.

Nothing of it belongs to an event loop, so that one control plane can serve tests that
each have their own. The processes' logs and data are in the folder given.
"""

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import trustme
import yaml

from support.kube_assets import needed
from support.kube_objects import Object, collection, path_of

ADMIN_TOKEN = "administrator"  # noqa: S105 - of a server that lives as long as a test
PATIENCE_SECONDS = 60
UNAUTHORIZED = 401
NOT_FOUND = 404
TOO_MANY_REQUESTS = 429
_POLL_SECONDS = 0.05
_STARTS = 3
_MODEST = {"GOMEMLIMIT": "512MiB", "GOGC": "50"}


class Refused(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status


class ControlPlane:
    """Made by `a_control_plane`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self._etcd_port = _free_port()
        self._apiserver: subprocess.Popen[bytes] | None = None
        self._etcd: subprocess.Popen[bytes] | None = None
        self._programs = {name: needed(name) for name in ("kube-apiserver", "etcd")}
        self._write_credentials()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.pem"

    # -- life ------------------------------------------------------------------

    async def start(self) -> None:
        """Returns once both are ready. Ports that somebody else took are chosen anew."""
        for attempt in range(_STARTS):
            try:
                await self.start_etcd()
                await self.start_apiserver()
            except _PortTaken:
                await self.kill()
                if attempt == _STARTS - 1:
                    raise
                self.port, self._etcd_port = _free_port(), _free_port()
            else:
                return

    async def start_apiserver(self) -> None:
        """On the port that it had before; returns once it is ready."""
        self._apiserver = self._spawn("kube-apiserver", *self._apiserver_flags(), **_MODEST)
        await self._until_answers(self._apiserver, f"{self.url}/readyz", self.log("kube-apiserver"))

    async def kill_apiserver(self) -> None:
        """As if its machine had died."""
        await _kill(self._apiserver)
        self._apiserver = None

    async def restart_apiserver(self) -> None:
        await self.kill_apiserver()
        await self.start_apiserver()

    async def start_etcd(self) -> None:
        client = f"http://127.0.0.1:{self._etcd_port}"
        self._etcd = self._spawn(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync",
            "--log-level=warn",
            **_MODEST,
        )
        await self._until_answers(self._etcd, f"{client}/health", self.log("etcd"))

    async def copy_etcd(self, name: str) -> None:
        """Keeps a copy of all data under a name. The API server waits meanwhile."""
        await _kill(self._etcd)
        shutil.copytree(self.folder / "etcd", self.folder / name)
        await self.start_etcd()

    async def restore_etcd(self, name: str) -> None:
        """Goes back to a copy: versions run backwards.

        The API server is stopped before and started after, as the documentation of
        Kubernetes demands of a restore.
        """
        await self.kill_apiserver()
        await _kill(self._etcd)
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(self.folder / name, self.folder / "etcd")
        await self.start_etcd()
        await self.start_apiserver()

    async def kill(self) -> None:
        """Leaves no process behind."""
        await self.kill_apiserver()
        await _kill(self._etcd)
        self._etcd = None

    def log(self, program: str) -> Path:
        return self.folder / f"{program}.log"

    # -- calls -----------------------------------------------------------------

    async def call(
        self, method: str, path: str, body: Any = None, *, token: str = ADMIN_TOKEN, **kwargs: Any
    ) -> Any:
        """The answer's JSON. Raises Refused for any status of 400 and above.

        But 429 says that a cache is still being filled: then it asks again.
        """
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    return await self._call_once(method, path, body, token, **kwargs)
                except Refused as refused:
                    if refused.status != TOO_MANY_REQUESTS:
                        raise
                    await asyncio.sleep(_POLL_SECONDS)

    async def _call_once(self, method: str, path: str, body: Any, token: str, **kwargs: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}", **kwargs.pop("headers", {})}
        async with (
            aiohttp.ClientSession(self.url) as session,
            session.request(
                method, path, json=body, headers=headers, ssl=self._trust(), **kwargs
            ) as answer,
        ):
            if not answer.ok:
                raise Refused(answer.status, await answer.text())
            return await answer.json()

    @contextlib.asynccontextmanager
    async def watching(
        self, path: str, params: dict[str, str]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of a watch, one event each."""
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        async with (
            aiohttp.ClientSession(self.url, headers=headers) as session,
            session.get(path, params=params, ssl=self._trust()) as answer,
        ):
            yield aiter(answer.content)

    async def until_served(self, path: str) -> None:
        """Returns once the server knows a path, such as that of a new kind's group."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    await self.call("GET", path)
                except Refused as refused:
                    if refused.status != NOT_FOUND:
                        raise
                    await asyncio.sleep(_POLL_SECONDS)
                else:
                    return

    async def create(self, item: Object) -> Object:
        folder, _, _ = path_of(item).rpartition("/")
        created: Object = await self.call("POST", folder, item)
        return created

    async def apply(self, item: Object, **params: str) -> Object:
        """Server-side apply: creates it, or makes what is there like it."""
        headers = {"Content-Type": "application/apply-patch+yaml"}
        params = {"fieldManager": "test", "force": "true", **params}
        applied: Object = await self.call(
            "PATCH", path_of(item), item, headers=headers, params=params
        )
        return applied

    async def merge(self, item: Object, patch: Object) -> Object:
        """Changes an object by a merge patch; None removes a key."""
        headers = {"Content-Type": "application/merge-patch+json"}
        patched: Object = await self.call("PATCH", path_of(item), patch, headers=headers)
        return patched

    async def delete(self, item: Object) -> None:
        await self.call("DELETE", path_of(item))

    # -- who may call ----------------------------------------------------------

    async def grant_token(self, namespace: str, account: str, *, name: str) -> str:
        """A token for a ServiceAccount, good until `revoke_token` of the same name."""
        bound = {"apiVersion": "v1", "kind": "Secret"}
        await self.create({**bound, "metadata": {"name": name, "namespace": namespace}})
        accounts = collection(api_version="v1", kind="ServiceAccount", namespace=namespace)
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"boundObjectRef": {**bound, "name": name}},
        }
        granted = await self.call("POST", f"{accounts}/{account}/token", request)
        return str(granted["status"]["token"])

    async def revoke_token(self, namespace: str, *, name: str, token: str) -> None:
        """Returns once the server refuses it: it remembers good tokens for ten seconds."""
        metadata = {"name": name, "namespace": namespace}
        await self.delete({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self.takes(token):  # noqa: ASYNC110 - it is another process's memory
                await asyncio.sleep(_POLL_SECONDS)

    async def takes(self, token: str) -> bool:
        """Whether the server knows the caller by this token."""
        try:
            await self.call("GET", "/version", token=token)
        except Refused as refused:
            if refused.status != UNAUTHORIZED:
                raise
            return False
        return True

    def kubeconfig(self, name: str, *, token: str | None = None, port: int | None = None) -> Path:
        """A kubeconfig that names a token file beside it, so that the token can be rotated.

        `port` is that of a proxy in front of the server. Without a token it is the
        administrator's.
        """
        self.write_token(name, token or ADMIN_TOKEN)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": f"https://127.0.0.1:{port or self.port}",
                        "certificate-authority": str(self.ca_file),
                    },
                }
            ],
            "users": [{"name": "test", "user": {"tokenFile": str(self._token_file(name))}}],
        }
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def write_token(self, name: str, token: str) -> None:
        """Replaces the token of a kubeconfig, as the kubelet replaces a mounted one."""
        fresh = self.folder / f"{name}.token.new"
        fresh.write_text(token)
        fresh.replace(self._token_file(name))

    # -- inside ----------------------------------------------------------------

    def _token_file(self, name: str) -> Path:
        return self.folder / f"{name}.token"

    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca_file))

    def _write_credentials(self) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca_file)
        server = authority.issue_cert("127.0.0.1")
        server.private_key_and_cert_chain_pem.write_to_path(self.folder / "server.pem")
        # Any key can sign the tokens of ServiceAccounts.
        authority.private_key_pem.write_to_path(self.folder / "accounts.pem")
        tokens = f'{ADMIN_TOKEN},administrator,administrator,"system:masters"\n'
        (self.folder / "tokens.csv").write_text(tokens)

    def _apiserver_flags(self) -> list[str]:
        folder = self.folder
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={folder / 'server.pem'}",
            f"--tls-private-key-file={folder / 'server.pem'}",
            f"--cert-dir={folder}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'accounts.pem'}",
            f"--service-account-signing-key-file={folder / 'accounts.pem'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # There is no controller that would make what these wait for.
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
        ]

    def _spawn(self, name: str, *flags: str, **variables: str) -> subprocess.Popen[bytes]:
        with self.log(name).open("ab") as log:
            return subprocess.Popen(
                [self._programs[name], *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **variables},
            )

    async def _until_answers(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        trust = self._trust()
        async with asyncio.timeout(PATIENCE_SECONDS), aiohttp.ClientSession() as session:
            while process.poll() is None:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(url, headers=headers, ssl=trust) as answer:
                        if answer.ok:
                            return
                await asyncio.sleep(_POLL_SECONDS)
        raise _failure(log)


class _PortTaken(RuntimeError):
    """Somebody took the port between its choice and its use."""


def _failure(log: Path) -> RuntimeError:
    said = log.read_text(errors="replace")[-4_000:]
    return (_PortTaken if "address already in use" in said else RuntimeError)(said)


async def _kill(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        await asyncio.to_thread(process.wait)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def a_control_plane(folder: Path) -> AsyncIterator[ControlPlane]:
    """Ready when entered, gone at the end. Skips the test where the programs are missing."""
    plane = ControlPlane(folder)
    try:
        await plane.start()
        yield plane
    finally:
        await plane.kill()
