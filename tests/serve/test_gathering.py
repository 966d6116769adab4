"""What both sides of a pool change within a moment reaches watchers as one message."""

from dataclasses import dataclass

from global_discovery.domain.lease import Heartbeat
from global_discovery.serving.core import GATHER_SECONDS, Core, CoreSettings
from global_discovery.storage.memory import MemoryStore
from global_discovery.v1 import pool_discovery_pb2 as pb
from support.clock import FakeClock
from support.hand_loop import HandLoop
from support.hand_watching import HandWatching
from support.join_world import FRONTENDS, IN_SYNC
from support.pools import a_heartbeat, pool_key
from support.watching import HandStream

KEY = pool_key()


@dataclass
class Told:
    """A core on a clock that is moved, and one watcher of its pools."""

    watching: HandWatching
    core: Core
    loop: HandLoop
    stream: HandStream

    def register(self, heartbeat: Heartbeat) -> None:
        self.core.registrations.register(heartbeat)

    def pass_time(self, seconds: float) -> None:
        self.loop.advance(seconds)
        self.stream.step()

    def changes(self) -> list[pb.PoolChanges]:
        messages = self.stream.client.messages
        return [one.changes for one in messages if one.WhichOneof("event") == "changes"]


def a_told_one() -> Told:
    clock = FakeClock()
    loop, watching = HandLoop(clock), HandWatching()
    core = Core(
        CoreSettings(pool_discovery="mcs"),
        MemoryStore(),
        imported=watching.sources,
        clock=clock,
        loop=loop,  # type: ignore[arg-type]  # enough of one
    )
    watching.say(IN_SYNC)
    told = Told(watching, core, loop, HandStream(core.pool_watchers, loop))
    told.pass_time(1.0)
    return told


def test_a_pool_that_comes_in_parts_is_told_whole() -> None:
    told = a_told_one()
    told.watching.show(KEY, frontends=())
    told.pass_time(GATHER_SECONDS / 4)
    told.register(a_heartbeat(KEY))
    told.pass_time(GATHER_SECONDS / 4)
    told.watching.show(KEY)
    assert told.changes() == []
    told.pass_time(GATHER_SECONDS)
    (change,) = told.changes()
    assert list(change.pools[0].frontends) == [*FRONTENDS]


def test_what_both_sides_change_is_one_message() -> None:
    told = a_told_one()
    told.watching.show(KEY)
    told.register(a_heartbeat(KEY, model="old"))
    told.pass_time(1.0)
    told.register(a_heartbeat(KEY, model="new"))
    told.pass_time(GATHER_SECONDS / 2)
    told.watching.show(KEY, frontends=("http://10.9.9.9",))
    told.pass_time(1.0)
    _, change = told.changes()
    assert [(pool.model, [*pool.frontends]) for pool in change.pools] == [
        ("new", ["http://10.9.9.9"])
    ]
