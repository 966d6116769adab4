from global_discovery.domain.pool import Router
from global_discovery.sources.routers import ConfiguredRouters


def test_configured_routers_are_told_once_and_are_exact_from_the_start() -> None:
    routers = [Router("a", "http://a"), Router("b", "http://b")]
    source = ConfiguredRouters(routers)
    first = source.drain()
    assert [change.value for change in first.changes] == routers
    assert first.mark.exact
    assert first.synced
    second = source.drain()
    assert second.changes == []
    assert second.mark == first.mark


def test_no_routers_are_an_empty_and_exact_list() -> None:
    update = ConfiguredRouters([]).drain()
    assert update.changes == []
    assert update.mark.exact
    assert update.synced
