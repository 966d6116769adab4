"""What is shown of the view of routers, and of the watch of Karmada's member clusters."""

from pathlib import Path

from global_discovery.domain.pool import Router
from global_discovery.serving.service import Service
from global_discovery.serving.watching import SlicesWatching, WatchingSettings
from global_discovery.slices.naming import Naming
from global_discovery.slices.recognise import Discovery
from support.fake_kube_api import FakeKubeApi, fake_kube_api
from support.grpc_calls import eventually
from support.hand_source import EXACT
from support.hand_watching import HandWatching
from support.running import a_service
from support.scrapes import a_member_cluster


def shown(service: Service, name: str, **labels: str) -> float | None:
    return service.registry.get_sample_value(f"global_discovery_{name}", labels)


def watching(api: FakeKubeApi, folder: Path) -> SlicesWatching:
    config = str(api.kubeconfig(folder))
    return SlicesWatching(WatchingSettings(Discovery.KARMADA, Naming(), kubeconfig=config))


async def test_the_view_of_routers_has_a_position_and_a_mark_of_its_own() -> None:
    by_hand = HandWatching()
    async with a_service(watching=by_hand, pool_discovery="mcs") as service:
        assert shown(service, "routers_view_exact") == 0
        assert shown(service, "routers_view_estimated", reason="SOURCE_UNSYNCED") == 1
        assert by_hand.routers is not None
        by_hand.routers.say(EXACT)
        assert shown(service, "routers_view_exact") == 1
        assert shown(service, "routers_view_estimated", reason="SOURCE_UNSYNCED") == 0
        assert shown(service, "view_exact") == 0


async def test_configured_routers_are_a_view_that_is_exact_from_the_start() -> None:
    routers = tuple(Router(name, f"http://{name}.example") for name in ("a", "b"))
    async with a_service(routers=routers) as service:
        assert shown(service, "routers") == 2
        assert shown(service, "routers_view_exact") == 1
        assert shown(service, "routers_view_position") == 2
        assert shown(service, "routers_view_history") == 2


async def test_the_watch_of_member_clusters_is_told_apart_from_that_of_the_slices(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api:
        for name in ("oslo", "bergen"):
            api.put(a_member_cluster(name))
        async with a_service(watching=watching(api, tmp_path), pool_discovery="karmada") as service:
            await eventually(lambda: shown(service, "member_clusters_in_sync") == 1)
            assert shown(service, "member_clusters") == 2
            assert shown(service, "member_clusters_relists_total", reason="first") == 1
            age = shown(service, "member_clusters_event_age_seconds")
            assert age is not None
            assert age >= 0


async def test_member_clusters_that_may_not_be_read_are_a_figure_and_nothing_more(
    tmp_path: Path,
) -> None:
    def failed(service: Service) -> bool:
        return bool(shown(service, "member_clusters_watch_failures_total", reason="not_found"))

    async with (
        fake_kube_api() as api,
        a_service(watching=watching(api, tmp_path), pool_discovery="karmada") as service,
    ):
        await eventually(lambda: failed(service))
        await eventually(lambda: shown(service, "slices_in_sync") == 1)
        assert shown(service, "member_clusters_in_sync") == 0
        assert shown(service, "member_clusters_event_age_seconds") is None
        assert shown(service, "slices_watch_failures_total", reason="not_found") == 0
