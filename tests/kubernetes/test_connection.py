"""Credentials that change, certificates, time-outs: what is asked of the API server's transport."""

import asyncio
import contextlib
import json
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from global_discovery.domain.events import Event
from global_discovery.kubernetes.connection import LOAD_SECONDS, ApiConnection, _failed
from global_discovery.kubernetes.credentials import (
    CredentialsUnreadable,
    InCluster,
    Kubeconfig,
    find_credentials,
)
from global_discovery.kubernetes.failures import CallFailed, Failure
from support.fake_kube_api import Answer, Hang, fake_kube_api, forbidden, unauthorized
from support.kube_reading import PATIENCE_SECONDS, Reading, a_slice, reading
from support.timer import MovedTimer

SLICES = "/apis/discovery.k8s.io/v1/endpointslices"


async def get(connection: ApiConnection, path: str = SLICES) -> bytes:
    async with connection.get(path, {}, answer_seconds=9, read_seconds=9) as response:
        return await response.read()


def tls_of(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def secret(path: Path, text: str | bytes) -> None:
    """Replaces a file as a mounted Secret is replaced: all at once, by another file."""
    new = path.with_suffix(".new")
    new.write_bytes(text if isinstance(text, bytes) else text.encode())
    new.replace(path)


async def started_child(it: Reading, file: Path) -> int:
    """The process whose number a plugin has written into a file."""
    written: list[str] = []

    def is_written() -> bool:
        written[:] = [file.read_text()] if file.exists() else [""]
        return written[0].endswith("\n")

    await it.until(is_written)
    return int(written[0])


@contextlib.contextmanager
def end_of(process: int) -> Iterator[asyncio.Event]:
    """Set once a process has ended, whoever asks how (pidfd_open(2))."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    descriptor = os.pidfd_open(process)
    loop.add_reader(descriptor, ended.set)
    try:
        yield ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def test_a_token_file_that_is_rotated_is_read_before_the_next_request(
    tmp_path: Path,
) -> None:
    secret(tmp_path / "token", "one")
    async with fake_kube_api() as api, reading(api, tmp_path, user={"tokenFile": "token"}) as it:
        api.bearer = "one"
        it.drive()
        await it.following()
        api.bearer = "two"
        secret(tmp_path / "token", "two")
        api.end_watches()
        await api.watching(0)
        await it.following()
        assert not it.reader.figures.failures
        assert api.asked[-1].headers["Authorization"] == "Bearer two"


async def test_a_401_has_a_plugin_asked_for_a_new_token(tmp_path: Path) -> None:
    def issue(token: str) -> None:
        credential = {
            "kind": "ExecCredential",
            "apiVersion": "client.authentication.k8s.io/v1",
            "status": {"token": token},
        }
        secret(tmp_path / "issued", json.dumps(credential))

    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "cat",
        "args": [str(tmp_path / "issued")],
        "interactiveMode": "Never",
    }
    issue("one")
    async with fake_kube_api() as api, reading(api, tmp_path, user={"exec": plugin}) as it:
        api.bearer = "one"
        it.drive()
        await it.following()
        issue("two")
        api.bearer = "two"
        api.end_watches()
        await api.watching(0)
        await it.following()
        assert it.reader.figures.failures == {Failure.UNAUTHORIZED: 1}
        assert it.events == []


async def test_a_plugin_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    script = 'sleep 1000 & echo $! > "$0"; wait'
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", script, str(tmp_path / "child")],
        "interactiveMode": "Never",
    }
    async with fake_kube_api() as api, reading(api, tmp_path, user={"exec": plugin}) as it:
        it.drive(until=1)
        with end_of(await started_child(it, tmp_path / "child")) as ended:
            it.timer.advance(LOAD_SECONDS)
            await it.driving
            assert [told["reason"] for told in it.said(Event.WATCH_FAILING)] == ["credentials"]
            await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)


async def test_a_plugin_that_hangs_does_not_outlive_its_reader(tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", 'echo $$ > "$0"; exec sleep 1000', str(tmp_path / "child")],
        "interactiveMode": "Never",
    }
    with contextlib.ExitStack() as until:
        async with fake_kube_api() as api, reading(api, tmp_path, user={"exec": plugin}) as it:
            it.drive()
            ended = until.enter_context(end_of(await started_child(it, tmp_path / "child")))
        await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("no", "no JSON"),
        ("[]", "no ExecCredential"),
        ('{"apiVersion":"v0","kind":"ExecCredential","status":{}}', "apiVersion is not"),
        ("; echo why >&2; exit 3", "returned 3. why"),
    ],
)
async def test_what_is_wrong_with_a_plugin_is_told(output: str, told: str, tmp_path: Path) -> None:
    command = f"echo {output}" if output.startswith(";") else f"echo '{output}'"
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", command],
        "interactiveMode": "Never",
    }
    async with fake_kube_api() as api, reading(api, tmp_path, user={"exec": plugin}) as it:
        it.drive()
        await it.until(lambda: it.said(Event.WATCH_FAILING))
        (failing,) = it.said(Event.WATCH_FAILING)
        assert failing["reason"] == "credentials"
        assert told in failing["message"]


async def test_one_401_is_not_told_and_repeated_at_once(tmp_path: Path) -> None:
    secret(tmp_path / "token", "one")
    async with fake_kube_api() as api, reading(api, tmp_path, user={"tokenFile": "token"}) as it:
        it.drive()
        for watches in (3, 5):
            await it.following()
            api.fail_next(unauthorized(), verb="watch")
            api.end_watches()
            await api.asked_for(watches, "watch")
            await it.following()
            assert it.waits[-1] == 0
            it.timer.advance(30)
        assert it.events == []
        assert "out_of_sync" not in it.sink.calls


async def test_401_goes_on_slowly_until_there_is_a_token_that_is_taken(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path, user={"token": "old"}) as it:
        api.put(a_slice("a"))
        api.bearer = "new"
        it.drive()
        await api.asked_for(8)
        assert [fields["reason"] for fields in it.said(Event.WATCH_FAILING)] == ["unauthorized"]
        assert it.passed > 10
        api.kubeconfig(tmp_path, token="new")
        await it.right_again()


async def test_a_missing_permission_is_told_with_verb_and_scope(tmp_path: Path) -> None:
    for namespaces, scope in (([], "in all namespaces"), (["llm"], "in namespace llm")):
        async with (
            fake_kube_api() as api,
            reading(api, tmp_path, namespaces=namespaces) as it,
        ):
            api.put(a_slice("a", "llm"))
            api.fail_next(*[forbidden("list")] * 3, verb="list")
            it.drive()
            await it.right_again()
            (told,) = it.said(Event.WATCH_FAILING)
            assert told["missing"] == f"list endpointslices.discovery.k8s.io {scope}"
            assert told["status"] == 403
            assert all(22 < wait <= 30 for wait in it.waits[:3])


async def test_a_certificate_authority_that_changes_is_taken_without_a_restart(
    tmp_path: Path,
) -> None:
    old, new = trustme.CA(), trustme.CA()
    secret(tmp_path / "ca.crt", old.cert_pem.bytes())
    async with contextlib.AsyncExitStack() as stack:
        first = contextlib.AsyncExitStack()
        api = await first.enter_async_context(fake_kube_api(tls=tls_of(old)))
        it = await stack.enter_async_context(reading(api, tmp_path))
        api.put(a_slice("a"))
        it.drive()
        await it.right_again()
        await it.following()
        port = api.port
        await first.aclose()
        await stack.enter_async_context(fake_kube_api(port, api=api, tls=tls_of(new)))
        await it.until(lambda: it.reader.figures.failures[Failure.TLS])
        assert not it.sink.synced
        secret(tmp_path / "ca.crt", new.cert_pem.bytes())
        await it.following()
        await it.right_again()
        reasons = [fields["reason"] for fields in it.said(Event.WATCH_FAILING)]
        assert reasons.count("tls") == 1


async def test_a_handshake_that_failed_has_everything_read_again(tmp_path: Path) -> None:
    authority = trustme.CA()
    secret(tmp_path / "ca.crt", trustme.CA().cert_pem.bytes())

    class Unchanging(Kubeconfig):
        def fingerprint(self) -> tuple[str, ...]:
            return ()

    async with fake_kube_api(tls=tls_of(authority)) as api:
        connection = ApiConnection(Unchanging(str(api.kubeconfig(tmp_path))), timer=MovedTimer())
        with pytest.raises(CallFailed) as failed:
            await get(connection)
        assert failed.value.failure is Failure.TLS
        secret(tmp_path / "ca.crt", authority.cert_pem.bytes())
        await get(connection)
        await connection.close()


async def test_a_client_certificate_that_is_not_taken_is_a_matter_of_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = tls_of(authority)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    secret(tmp_path / "ca.crt", authority.cert_pem.bytes())
    mine = authority.issue_cert("relay.example")
    async with fake_kube_api(tls=context) as api:
        timer = MovedTimer()
        connection = ApiConnection(Kubeconfig(str(api.kubeconfig(tmp_path))), timer=timer)
        with pytest.raises(CallFailed) as failed:
            await get(connection)
        assert failed.value.failure in (Failure.TLS, Failure.CUT, Failure.UNREACHABLE)
        secret(tmp_path / "tls.crt", mine.cert_chain_pems[0].bytes())
        secret(tmp_path / "tls.key", mine.private_key_pem.bytes())
        user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
        api.kubeconfig(tmp_path, **user)
        assert b"EndpointslicesList" in await get(connection)
        # Half of a rotation: the new key is there, its certificate is not yet.
        secret(tmp_path / "tls.key", authority.issue_cert("x").private_key_pem.bytes())
        assert b"EndpointslicesList" in await get(connection)
        await connection.close()


async def test_the_strict_check_can_be_switched_off(tmp_path: Path) -> None:
    async with fake_kube_api() as api:
        credentials = Kubeconfig(str(api.kubeconfig(tmp_path)))
        for strict in (True, False):
            connection = ApiConnection(credentials, timer=MovedTimer(), strict_x509=strict)
            await get(connection)
            assert connection._client is not None
            configuration = connection._client.api.configuration
            assert configuration.disable_strict_ssl_verification is not strict
            await connection.close()


def test_a_refusal_by_the_strict_check_says_what_to_do() -> None:
    error = ssl.SSLCertVerificationError("certificate verify failed")
    error.verify_message = "Missing Authority Key Identifier"
    assert "--kubernetes-strict-x509" in _failed(error, answered=False, strict=True).message
    assert "--kubernetes-strict-x509" not in _failed(error, answered=False, strict=False).message
    error.verify_message = "unable to get local issuer certificate"
    assert "--kubernetes-strict-x509" not in _failed(error, answered=False, strict=True).message


async def test_a_proxy_of_the_environment_is_used_unless_it_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_kube_api() as api:
        connection = ApiConnection(Kubeconfig(str(api.kubeconfig(tmp_path))), timer=MovedTimer())
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        with pytest.raises(CallFailed):
            await get(connection)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        await get(connection)
        await connection.close()


async def test_a_running_call_keeps_the_client_that_it_began_with(tmp_path: Path) -> None:
    async with fake_kube_api() as api:
        connection = ApiConnection(
            Kubeconfig(str(api.kubeconfig(tmp_path, token="one"))), timer=MovedTimer()
        )
        async with connection.get(
            SLICES, {"watch": "true"}, answer_seconds=9, read_seconds=9
        ) as watch:
            api.kubeconfig(tmp_path, token="another")
            await get(connection)
            api.put(a_slice("a"))
            assert b'"a"' in await watch.content.readline()
        await api.watching(0)
        assert api.asked[-1].headers["Authorization"] == "Bearer another"
        await connection.close()


async def test_a_server_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    async with fake_kube_api() as api:
        credentials = Kubeconfig(str(api.kubeconfig(tmp_path)))
    connection = ApiConnection(credentials, timer=MovedTimer())
    with pytest.raises(CallFailed) as failed:
        await get(connection)
    assert failed.value.failure is Failure.UNREACHABLE
    place = api.url.removeprefix("http://")
    assert failed.value.message.startswith(f"cannot connect to {place}: ")
    assert "ssl" not in failed.value.message
    await connection.close()


async def test_a_redirect_is_a_refusal_and_shows_the_token_to_nobody(tmp_path: Path) -> None:
    async with fake_kube_api() as api, fake_kube_api() as elsewhere:
        for place in (elsewhere.url, api.url):
            api.fail_next(Answer(307, headers={"Location": f"{place}{SLICES}"}))
        credentials = Kubeconfig(str(api.kubeconfig(tmp_path, token="secret")))
        connection = ApiConnection(credentials, timer=MovedTimer())
        for _ in range(2):
            with pytest.raises(CallFailed) as failed:
                await get(connection)
            assert failed.value.failure is Failure.REFUSED
            assert failed.value.status == 307
        assert len(api.asked) == 2
        assert elsewhere.asked == []
        await connection.close()


async def test_a_call_that_is_cancelled_leaves_nothing_open(tmp_path: Path) -> None:
    async with fake_kube_api() as api:
        connection = ApiConnection(Kubeconfig(str(api.kubeconfig(tmp_path))), timer=MovedTimer())
        api.fail_next(Hang())
        call = asyncio.create_task(get(connection))
        await api.asked_for(1)
        call.cancel()
        await asyncio.wait({call})
        await api.hung_up.wait()
        await connection.close()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "a: [", "current-context: x", "clusters: 5\ncurrent-context: y\n", "\xff"],
)
async def test_a_kubeconfig_that_makes_no_sense_is_told_and_read_again(
    text: str, tmp_path: Path
) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        (tmp_path / "kubeconfig").write_text(text, encoding="latin-1")
        it.drive()
        await it.until(lambda: it.reader.figures.failures[Failure.CREDENTIALS] > 2)
        assert [fields["reason"] for fields in it.said(Event.WATCH_FAILING)] == ["credentials"]
        api.kubeconfig(tmp_path)
        await it.right_again()


async def test_a_kubeconfig_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    async with fake_kube_api() as api, reading(api, tmp_path) as it:
        (tmp_path / "kubeconfig").unlink()
        it.drive()
        await it.until(lambda: it.reader.figures.failures[Failure.CREDENTIALS] > 2)
        api.kubeconfig(tmp_path)
        await it.right_again()


async def test_the_account_of_a_pod_is_read_again_when_it_changes(tmp_path: Path) -> None:
    authority = trustme.CA()
    secret(tmp_path / "ca.crt", authority.cert_pem.bytes())
    secret(tmp_path / "token", "one")
    async with fake_kube_api(tls=tls_of(authority)) as api:
        environ = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(api.port),
        }
        connection = ApiConnection(InCluster(environ, tmp_path), timer=MovedTimer())
        api.bearer = "one"
        await get(connection)
        api.bearer = "two"
        secret(tmp_path / "token", "two")
        await get(connection)
        await connection.close()


async def test_outside_of_a_pod_there_is_no_account(tmp_path: Path) -> None:
    with pytest.raises(CredentialsUnreadable, match="no service account"):
        await InCluster({}, tmp_path).load()


def test_a_named_kubeconfig_comes_before_the_variable_and_that_before_the_account() -> None:
    environ = {"KUBECONFIG": "/b"}
    assert find_credentials("/a", environ=environ) == Kubeconfig("/a")
    assert find_credentials(environ=environ) == Kubeconfig("/b")
    assert find_credentials(environ={}) == InCluster({})
