"""Runs the program that a kubeconfig names to obtain credentials, and leaves none behind.

kubernetes-asyncio's own way goes on waiting when nobody waits for it any more: each
plugin that hangs would stay for ever, one more with every attempt. Here a plugin, with
what it started, ends when its caller is cancelled, as at a time-out or at SIGTERM.
"""

import asyncio
import contextlib
import json
import os
import signal
from typing import Any

from kubernetes_asyncio.config import ConfigException, kube_config
from kubernetes_asyncio.config.exec_provider import ExecProvider

_NEEDED = ("apiVersion", "kind", "status")


class ExecPlugin(ExecProvider):
    """As client.authentication.k8s.io has it. Command and environment are read by the library."""

    async def run(self, previous_response: str | None = None) -> Any:
        """The `status` of the ExecCredential. Raises ConfigException or OSError."""
        spec: dict[str, Any] = {"interactive": False}
        if previous_response:
            spec["response"] = previous_response
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        self.env["KUBERNETES_EXEC_INFO"] = json.dumps(info)
        start = asyncio.create_subprocess_exec(
            *self.args,
            env=self.env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        starting = asyncio.create_task(start)
        try:
            # Cancelled while it starts, what it started would be nobody's.
            process = await asyncio.shield(starting)
            output, errors = await process.communicate()
        finally:
            await _end(await starting)
        if process.returncode:
            told = errors.decode(errors="replace").strip()
            raise ConfigException(f"exec: process returned {process.returncode}. {told}")
        return self._status_in(output)

    def _status_in(self, output: bytes) -> Any:
        try:
            credential = json.loads(output)
        except ValueError as error:
            raise ConfigException(f"exec: no JSON: {error}") from error
        if not isinstance(credential, dict) or any(name not in credential for name in _NEEDED):
            raise ConfigException(f"exec: no ExecCredential with {', '.join(_NEEDED)}")
        if credential["apiVersion"] != self.api_version:
            raise ConfigException(f"exec: apiVersion is not {self.api_version}")
        return credential["status"]


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kills what still runs of it; nothing when it has ended by itself."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def install() -> None:
    """Has the library run plugins this way: it offers no other place for it."""
    kube_config.ExecProvider = ExecPlugin  # type: ignore[attr-defined] # it is not exported
