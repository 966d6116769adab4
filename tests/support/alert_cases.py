"""For each alert, series under which it fires and series under which it does not.

Values as promtool takes them, one a minute: `0+1x60` begins at 0 and rises by 1.
"""

from typing import NamedTuple

G = "global_discovery_"
A, B = 'job="gd", instance="a"', 'job="gd", instance="b"'
Series = dict[str, str]


class Case(NamedTuple):
    """Both are looked at after `minutes`."""

    fires: Series
    quiet: Series
    minutes: int = 30


def gauge(name: str, bad: str, good: str, labels: str = "") -> Case:
    """One instance."""
    series = f"{G}{name}{{{A}{labels}}}"
    return Case({series: f"{bad}+0x60"}, {series: f"{good}+0x60"})


def rises(name: str, labels: str = "", *, by: int = 1, slow: int = 0) -> Case:
    """A counter of one instance, that rises or (nearly) stands."""
    series = f"{G}{name}{{{A}{labels}}}"
    return Case({series: f"0+{by}x60"}, {series: f"0+{slow}x60"})


def of_two(name: str, bad: tuple[str, str], good: tuple[str, str], labels: str = "") -> Case:
    """Two instances of one job."""

    def both(values: tuple[str, str]) -> Series:
        pairs = zip((A, B), values, strict=True)
        return {f"{G}{name}{{{one}{labels}}}": f"{value}+0x60" for one, value in pairs}

    return Case(both(bad), both(good))


def slow(name: str, labels: str = "") -> Case:
    """A histogram whose calls all take two seconds, or all one millisecond."""

    def histogram(quick: int) -> Series:
        return {
            f'{G}{name}_bucket{{{A}{labels}, le="0.001"}}': f"0+{quick}x60",
            f'{G}{name}_bucket{{{A}{labels}, le="2.5"}}': "0+60x60",
            f'{G}{name}_bucket{{{A}{labels}, le="+Inf"}}': "0+60x60",
        }

    return Case(histogram(0), histogram(60))


def ours(fires: Series, quiet: Series, minutes: int = 30) -> Case:
    """Figures of processes, of ours and (which must not fire) of others."""
    build = {f"{G}build_info{{{A}}}": "1+0x240"}
    others = {series.replace(A, 'job="other", instance="x"'): v for series, v in fires.items()}
    return Case({**build, **fires}, {**build, **quiet, **others}, minutes)


CASES: dict[str, Case] = {
    "GlobalDiscoveryAbsent": Case(
        {f"up{{{A}}}": "1+0x60"},
        {f"{G}build_info{{{A}}}": "1+0x60"},
    ),
    "GlobalDiscoveryInstanceDown": Case(
        {f"{G}build_info{{{A}}}": "1 1 1 1 1", f"up{{{A}}}": "1 1 1 1 1 0+0x60"},
        {f"{G}build_info{{{A}}}": "1+0x60", f"up{{{A}}}": "1+0x60", 'up{job="other"}': "0+0x60"},
    ),
    "GlobalDiscoveryNotReady": gauge("ready", "0", "1"),
    "GlobalDiscoveryRestarting": ours(
        {f"process_start_time_seconds{{{A}}}": "1000+60x60"},
        {f"process_start_time_seconds{{{A}}}": "1000+0x60"},
    ),
    "GlobalDiscoveryInternalErrors": rises("internal_errors_total", ', face="rest"'),
    "GlobalDiscoveryCallsRefused": Case(
        {
            f'{G}rejections_total{{{A}, face="rest"}}': "0+60x60",
            f'{G}calls_total{{{A}, face="rest"}}': "0+120x60",
        },
        {
            f'{G}rejections_total{{{A}, face="rest"}}': "0+60x60",
            f'{G}calls_total{{{A}, face="rest"}}': "0+1200x60",
        },
    ),
    "GlobalDiscoveryStalled": rises("stalls_total"),
    "GlobalDiscoveryLoopLag": slow("loop_lag_seconds"),
    "GlobalDiscoveryMemoryGrows": ours(
        {f"process_resident_memory_bytes{{{A}}}": "600000000+4000000x240"},
        {f"process_resident_memory_bytes{{{A}}}": "600000000+0x240"},
        180,
    ),
    "GlobalDiscoveryFilesRunOut": ours(
        {f"process_open_fds{{{A}}}": "900+0x60", f"process_max_fds{{{A}}}": "1000+0x60"},
        {f"process_open_fds{{{A}}}": "100+0x60", f"process_max_fds{{{A}}}": "1000+0x60"},
    ),
    "GlobalDiscoveryCertificateExpires": gauge(
        "tls_expires_in_seconds", "500000", "700000", ', certificate="server"'
    ),
    "GlobalDiscoveryCertificateExpiresSoon": gauge(
        "tls_expires_in_seconds", "80000", "90000", ', certificate="server"'
    ),
    "GlobalDiscoveryTlsFilesRefused": Case(
        {
            f'{G}tls_files_total{{{A}, outcome="refused"}}': "0 1+0x60",
            f'{G}tls_files_total{{{A}, outcome="taken"}}': "0+0x60",
        },
        {
            f'{G}tls_files_total{{{A}, outcome="refused"}}': "0 1+0x60",
            f'{G}tls_files_total{{{A}, outcome="taken"}}': "0+0x20 1+0x60",
        },
    ),
    "GlobalDiscoveryEstimatedEverywhere": of_two("view_exact", ("0", "0"), ("1", "0")),
    "GlobalDiscoveryEstimated": of_two("view_exact", ("1", "0"), ("1", "1")),
    "GlobalDiscoveryPoolsVanished": Case(
        {f"{G}pools{{{A}}}": "100+0x20 10+0x60"}, {f"{G}pools{{{A}}}": "100+0x20 90+0x60"}
    ),
    "GlobalDiscoveryInstancesDisagree": of_two("pools", ("100", "50"), ("100", "99")),
    "GlobalDiscoveryHeartbeatsGone": Case(
        {
            f"{G}heartbeat_age_seconds{{{A}}}": "0+60x60",
            f"{G}lease_duration_seconds{{{A}}}": "15+0x60",
        },
        {
            f"{G}heartbeat_age_seconds{{{A}}}": "0+60x60",
            f"{G}heartbeat_age_seconds{{{B}}}": "2+0x60",
            f"{G}lease_duration_seconds{{{A}}}": "15+0x60",
        },
    ),
    "GlobalDiscoveryMassLapse": rises("mass_lapses_total"),
    "GlobalDiscoveryLapses": Case(
        {f"{G}lapses_total{{{A}}}": "0+2x60", f"{G}live_shares{{{A}}}": "100+0x60"},
        {f"{G}lapses_total{{{A}}}": "0+2x60", f"{G}live_shares{{{A}}}": "1000+0x60"},
    ),
    "GlobalDiscoveryHeartbeatsMissing": Case(
        {f'{G}leases{{{A}, state="overdue"}}': "30+0x60", f"{G}live_shares{{{A}}}": "100+0x60"},
        {f'{G}leases{{{A}, state="overdue"}}': "2+0x60", f"{G}live_shares{{{A}}}": "8+0x60"},
    ),
    "GlobalDiscoveryOneSidedPools": of_two(
        "one_sided_pools", ("0", "1"), ("0", "0"), ', side="slices"'
    ),
    "GlobalDiscoveryPoolsWithoutFrontends": gauge("pools_without_frontends", "1", "0"),
    "GlobalDiscoverySlowWatchers": rises("slow_watchers_total", ', view="pools"'),
    "GlobalDiscoveryWatcherLag": gauge("watcher_lag", "5000", "50", ', view="pools"'),
    "GlobalDiscoverySourceOutOfSync": gauge("slices_in_sync", "0", "1"),
    "GlobalDiscoverySourceSilent": gauge("slices_event_age_seconds", "400", "70"),
    "GlobalDiscoveryWatchFailing": rises("slices_watch_failures_total", ', reason="forbidden"'),
    "GlobalDiscoveryRelists": rises("slices_relists_total", ', reason="lost"'),
    "GlobalDiscoveryStoreFailing": gauge("store_failing", "1", "0"),
    "GlobalDiscoveryStoreUnsteady": rises("store_failures_total"),
    "GlobalDiscoveryStoreSlow": slow("store_call_seconds", ', operation="put"'),
    "GlobalDiscoveryStoreReadStale": gauge("dynamodb_read_age_seconds", "60", "2"),
    "GlobalDiscoveryStoreThrottled": Case(
        {
            f'{G}dynamodb_calls_total{{{A}, outcome="throttled"}}': "0+10x60",
            f'{G}dynamodb_calls_total{{{A}, outcome="ok"}}': "0+100x60",
        },
        {
            f'{G}dynamodb_calls_total{{{A}, outcome="throttled"}}': "0+0x60",
            f'{G}dynamodb_calls_total{{{A}, outcome="ok"}}': "0+100x60",
        },
    ),
    "GlobalDiscoveryRegionSilent": gauge("dynamodb_silent_regions", "1", "0"),
    "GlobalDiscoveryRegistrationsFull": Case(
        {f'{G}limit_refusals_total{{{A}, limit="pools"}}': "0+1x60"},
        {
            f'{G}limit_refusals_total{{{A}, limit="pools"}}': "5+0x60",
            f'{G}limit_refusals_total{{{A}, limit="watchers"}}': "0+1x60",
        },
    ),
    "GlobalDiscoveryLimitReached": Case(
        {f'{G}limit_refusals_total{{{A}, limit="watchers"}}': "0+1x60"},
        {
            f'{G}limit_refusals_total{{{A}, limit="watchers"}}': "5+0x60",
            f'{G}limit_refusals_total{{{A}, limit="pools"}}': "0+1x60",
        },
    ),
    "GlobalDiscoveryLimitNear": Case(
        {
            f'{G}limit_used{{{A}, limit="pools"}}': "850+0x60",
            f'{G}limit{{{A}, limit="pools"}}': "1000+0x60",
        },
        {
            f'{G}limit_used{{{A}, limit="pools"}}': "700+0x60",
            f'{G}limit{{{A}, limit="pools"}}': "1000+0x60",
            f'{G}limit{{{A}, limit="shares"}}': "10+0x60",
        },
    ),
    "GlobalDiscoveryCallsWaiting": gauge("calls_waiting", "2000", "500"),
    "GlobalDiscoveryAccessDenied": rises(
        "access_denied_total", ', reason="PERMISSION_DENIED"', by=12, slow=2
    ),
    "GlobalDiscoveryPolicyRefused": Case(
        {f"{G}policy_stale{{{A}}}": "0 1+0x60"}, {f"{G}policy_stale{{{A}}}": "0+0x60"}
    ),
    "GlobalDiscoveryTokenReviewsFailing": Case(
        {f"{G}token_reviews_failing{{{A}}}": "0 1+0x60"},
        {f"{G}token_reviews_failing{{{A}}}": "0 1 0+0x60"},
    ),
}


def promtool_tests(rule_file: str) -> dict[str, object]:
    """All of it, for `promtool test rules`."""
    return {
        "rule_files": [rule_file],
        "evaluation_interval": "1m",
        "tests": [
            _test(alert, case.minutes, series, [{"labels": "{}", "value": 1}] if fires else [])
            for alert, case in CASES.items()
            for fires, series in ((True, case.fires), (False, case.quiet))
        ],
    }


def _test(alert: str, minutes: int, series: Series, expected: list[object]) -> dict[str, object]:
    firing = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": firing, "eval_time": f"{minutes}m", "exp_samples": expected}],
    }
