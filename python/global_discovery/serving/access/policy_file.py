"""Keeps the policy that is in use, and takes a new one while we run.

The file is looked at each LOOK_SECONDS by its content, so that it does not matter
how it is replaced. What is new is taken when it was seen twice in a row: a file
that is just being written can look like a shorter policy that is in order. One
that cannot be used changes nothing; that is said once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from global_discovery.domain.access import Rights
from global_discovery.domain.events import Event, Report, ignore
from global_discovery.domain.policy import MAX_BYTES, BadPolicy, Policy, parse

LOOK_SECONDS = 2.0
"""A new policy is in force within twice that, and a moment."""
MAX_KEPT = 10_000
"""For how many identities the rights are remembered."""


def load(path: Path) -> tuple[bytes, Policy]:
    """The file's content and what it says. Raises BadPolicy."""
    content = _read(path)
    return content, parse(content)


class PolicyKeeper:
    """The policy of one file. Belongs to an event loop."""

    def __init__(self, path: Path, *, report: Report = ignore) -> None:
        """Reads it; raises BadPolicy, which names the file: it was in order a moment ago."""
        self._path = path
        self._report = report
        try:
            self._content, self._policy = load(path)
        except BadPolicy as bad:
            raise BadPolicy(f"{path}: {bad}") from None
        self._seen = self._content
        self._refusal: str | None = None
        self._rights: dict[str, Rights] = {}
        self.changed: Callable[[], None] = lambda: None
        """Called when another policy is in force."""
        self.taken = self.refused = 0
        """How often a new one was taken, and refused."""

    @property
    def rules(self) -> int:
        """How many rules are in force."""
        return len(self._policy.rules)

    @property
    def stale(self) -> bool:
        """Whether the file holds something that cannot be used."""
        return self._refusal is not None

    def rights(self, identity: str) -> Rights:
        """What is allowed to an identity; cheap when it was asked before."""
        rights = self._rights.get(identity)
        if rights is None:
            if len(self._rights) >= MAX_KEPT:
                self._rights.clear()
            rights = self._rights[identity] = self._policy.rights(identity)
        return rights

    async def watch(self, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep) -> None:
        """Looks at the file for ever."""
        while True:
            await sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Takes the policy if it is new, was there at the last look too, and can be used."""
        try:
            content, policy = await asyncio.to_thread(self._news)
        except BadPolicy as error:
            self._refuse(str(error))
            return
        before = self.rules
        if policy is not None:
            self._content, self._policy = content, policy
            self._rights.clear()
            self.taken += 1
            self.changed()
        if policy is not None or (self._refusal is not None and content == self._content):
            self._refusal = None
            self._report(Event.POLICY_TAKEN, rules=self.rules, rules_before=before)

    def _news(self) -> tuple[bytes, Policy | None]:
        """Runs in a thread: a disk that hangs must not hold up the loop."""
        content = _read(self._path)
        settled, self._seen = content == self._seen, content
        if content == self._content or not settled:
            return content, None
        return content, parse(content)

    def _refuse(self, why: str) -> None:
        if why != self._refusal:
            self._refusal = why
            self.refused += 1
            self._report(Event.POLICY_REFUSED, message=f"{self._path}: {why}")


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise BadPolicy("is no file")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadPolicy(f"cannot be read: {error.strerror or type(error).__name__}") from error
