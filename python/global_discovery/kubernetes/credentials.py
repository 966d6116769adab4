"""Where the API server is, and what this process shows it: a kubeconfig, or the pod's own account.

The files are mounted and change while the process runs: tokens within the hour,
certificates within months, by a symbolic link that is moved. `fingerprint` tells
whether any of them did. Reading them is kubernetes-asyncio's matter, which also
knows exec plugins; its own log lines are switched off, since every fault of it is
raised and reported by whoever called.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

logging.getLogger("kubernetes_asyncio.config.kube_config").setLevel(logging.CRITICAL)

KUBECONFIG_VARIABLE = "KUBECONFIG"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_FILES_OF_A_CLUSTER = ("certificate-authority",)
_FILES_OF_A_USER = ("client-certificate", "client-key", "tokenFile")

Fingerprint = tuple[tuple[str, int, int, int] | str, ...]


class CredentialsUnreadable(Exception):
    """They are missing or make no sense; the text says which, for the log only."""


class Credentials(Protocol):
    """Something that can be read again and again."""

    async def load(self) -> Configuration:
        """As they are now. Raises CredentialsUnreadable."""
        ...

    def fingerprint(self) -> Fingerprint:
        """Differs once any of the files differs; never raises."""
        ...


def find_credentials(
    kubeconfig: str | None = None, *, environ: Mapping[str, str] = os.environ
) -> Credentials:
    """The kubeconfig that is named, else that of KUBECONFIG, else the pod's service account."""
    named = kubeconfig or environ.get(KUBECONFIG_VARIABLE)
    return Kubeconfig(named) if named else InCluster(environ=environ)


@dataclass(frozen=True, slots=True)
class InCluster:
    """The service account of the pod that this process runs in."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    account: Path = ACCOUNT

    async def load(self) -> Configuration:
        """See Credentials."""
        configuration = Configuration()
        try:
            load_incluster_config(  # type: ignore[no-untyped-call] # the package is half typed
                configuration,
                # It would look at the token once a minute, by the wall clock.
                try_refresh_token=False,
                token_filename=str(self.account / "token"),
                cert_filename=str(self.account / "ca.crt"),
                environ=self.environ,
            )
        except (ConfigException, OSError, ValueError) as error:
            raise CredentialsUnreadable(f"no service account: {error}") from error
        return configuration

    def fingerprint(self) -> Fingerprint:
        """See Credentials."""
        return tuple(_state_of(self.account / name) for name in ("token", "ca.crt"))


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One kubeconfig file, or several as KUBECONFIG joins them."""

    paths: str

    async def load(self) -> Configuration:
        """See Credentials. Runs the exec plugin that it may name."""
        if not any(path.exists() for path in self._paths()):
            raise CredentialsUnreadable(f"no kubeconfig at {self.paths}")
        configuration = Configuration()
        try:
            await load_kube_config(
                self.paths, client_configuration=configuration, persist_config=False
            )
        except Exception as error:
            # The library lets AssertionError, TypeError, YAML's and a plugin's errors through.
            raise CredentialsUnreadable(
                f"kubeconfig {self.paths}: {str(error) or type(error).__name__}"
            ) from error
        return configuration

    def fingerprint(self) -> Fingerprint:
        """See Credentials."""
        return tuple(_state_of(path) for path in self._files())

    def _paths(self) -> list[Path]:
        return [Path(path).expanduser() for path in self.paths.split(os.pathsep) if path]

    def _files(self) -> Iterator[Path]:
        """The kubeconfigs and what they name, whether or not they exist."""
        for path in self._paths():
            yield path
            for name in _named_in(path):
                yield path.absolute().parent / name


def _named_in(kubeconfig: Path) -> Iterator[str]:
    try:
        document = yaml.safe_load(kubeconfig.read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return
    for plural, singular, keys in (
        ("clusters", "cluster", _FILES_OF_A_CLUSTER),
        ("users", "user", _FILES_OF_A_USER),
    ):
        for entry in _list_in(document, plural):
            named = entry.get(singular) if isinstance(entry, dict) else None
            if isinstance(named, dict):
                yield from (named[key] for key in keys if isinstance(named.get(key), str))


def _list_in(document: Any, name: str) -> list[Any]:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, list) else []


def _state_of(path: Path) -> tuple[str, int, int, int] | str:
    try:
        state = path.stat()
    except OSError:
        return str(path)
    return str(path), state.st_ino, state.st_mtime_ns, state.st_size
