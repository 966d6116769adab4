"""What a scrape of a real service shows, in each mode that has series of its own.

Each service has had calls that succeed and calls that fail, so that the series
which begin with the first call are there too.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import aiohttp
import grpc
import trustme
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from global_discovery.domain.clock import SystemClock
from global_discovery.domain.events import ignore
from global_discovery.domain.lease import LeaseTerms
from global_discovery.serving.access.reviews import TokenCluster
from global_discovery.serving.service import Service
from global_discovery.serving.watching import SlicesWatching, WatchingSettings
from global_discovery.slices.naming import Naming
from global_discovery.slices.recognise import Discovery
from global_discovery.storage.dynamodb.api import DynamoDB
from global_discovery.storage.dynamodb.store import DynamoDBStore
from global_discovery.storage.dynamodb.table import create_table
from global_discovery.storage.sqlite.store import SqliteStore
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support import dynamodb_server
from support.access import AUDIENCE, ISSUER, HandReviewer, in_file
from support.certificates import a_pair, client_context, in_files
from support.fake_kube_api import fake_kube_api
from support.grpc_calls import Stub, eventually, refused
from support.pools import a_registration
from support.rest import a_body
from support.running import a_service

ACCEPT = {"Accept": "application/openmetrics-text; version=1.0.0"}
MODES = ("memory", "sqlite", "mcs", "karmada", "dynamodb")


class Scrape(NamedTuple):
    """Every series of one service."""

    families: dict[str, str]
    """The names of the documentation, with the type of each."""
    series: dict[str, list[dict[str, str]]]
    """By the name of the sample, the labels of each series."""
    text: str
    """As a Prometheus of any age reads it."""


async def scrapes(folder: Path) -> dict[str, Scrape]:
    """One of each mode."""
    found = {}
    for mode in MODES:
        (folder / mode).mkdir()
        async with a_service_in(mode, folder / mode) as (service, context):
            await _call(service, context)
            found[mode] = await scrape(service)
    return found


@contextlib.asynccontextmanager
async def a_service_in(mode: str, folder: Path) -> AsyncIterator[tuple[Service, trustme.CA | None]]:
    """The service, and the CA to trust.

    `memory` as it comes, `sqlite` with TLS, a policy and tokens, `mcs` and `karmada` over an
    API server, `dynamodb` over a table.
    """
    async with contextlib.AsyncExitStack() as stack:
        ca = None
        if mode == "sqlite":
            ca = trustme.CA()
            made = a_service(
                store=SqliteStore(folder / "pools.db", SystemClock()),
                tls=in_files(folder, a_pair(ca), ca.cert_pem.bytes()),
                health_listen="127.0.0.1:0",
                policy=in_file(folder),
                token_audience=AUDIENCE,
                token_clusters=[TokenCluster("east", ISSUER, HandReviewer())],
            )
        elif mode in {"mcs", "karmada"}:
            watching = await _watching(Discovery(mode), folder, stack)
            made = a_service(watching=watching, pool_discovery=mode)
        elif mode == "dynamodb":
            made = a_service(store=await _a_store_in_a_table())
        else:
            made = a_service()
        service = await stack.enter_async_context(made)
        if service.core.joined is not None:
            await eventually(lambda: service.core.pools.refresh() or service.core.pools.synced)
        yield service, ca


def a_member_cluster(name: str) -> dict[str, object]:
    """As far as it is read."""
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
    }


async def _watching(
    discovery: Discovery, folder: Path, stack: contextlib.AsyncExitStack
) -> SlicesWatching:
    api = await stack.enter_async_context(fake_kube_api())
    if discovery is Discovery.KARMADA:
        api.put(a_member_cluster("oslo"))
    config = str(api.kubeconfig(folder))
    return SlicesWatching(WatchingSettings(discovery, Naming(), kubeconfig=config))


async def _a_store_in_a_table() -> DynamoDBStore:
    server, name = dynamodb_server.of_this_process(), dynamodb_server.new_table_name()
    clock = SystemClock()
    api = server.reached(clock)
    await create_table(api, name, asyncio.sleep)
    await api.close()

    async def connect() -> DynamoDB:
        return server.reached(clock)

    return DynamoDBStore(
        connect=connect, table=name, terms=LeaseTerms(), clock=clock, report=ignore
    )


class Client(NamedTuple):
    """Of both faces, whatever they speak."""

    channel: grpc.aio.Channel
    session: aiohttp.ClientSession
    url: str


@contextlib.asynccontextmanager
async def a_client(service: Service, ca: trustme.CA | None) -> AsyncIterator[Client]:
    """With a certificate where there is a CA."""
    target = f"localhost:{service.grpc.port}"
    if ca is None:
        connector, channel = aiohttp.TCPConnector(), grpc.aio.insecure_channel(target)
    else:
        leaf = ca.issue_cert("relay@eu-1.example")
        connector = aiohttp.TCPConnector(ssl=client_context(ca, leaf))
        chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
        credentials = grpc.ssl_channel_credentials(
            ca.cert_pem.bytes(), leaf.private_key_pem.bytes(), chain
        )
        channel = grpc.aio.secure_channel(target, credentials)
    url = f"{'http' if ca is None else 'https'}://localhost:{service.rest.port}"
    async with channel, aiohttp.ClientSession(connector=connector) as session:
        yield Client(channel, session, url)


async def _call(service: Service, ca: trustme.CA | None) -> None:
    """Each face: a call that is taken and one that is refused."""
    async with a_client(service, ca) as client:
        for body, status in ((a_body(), 200), ({}, 422)):
            async with client.session.post(f"{client.url}/pools", json=body) as answer:
                assert answer.status == status, await answer.text()
        stub: Stub = PoolDiscoveryServiceStub(client.channel)
        await stub.RegisterPool(pb.RegisterPoolRequest(registration=a_registration(1)))
        await refused(stub.RegisterPool(pb.RegisterPoolRequest()))


async def scrape(service: Service) -> Scrape:
    port = service.rest.health_port or service.rest.port
    url = f"http://127.0.0.1:{port}/metrics"
    async with aiohttp.ClientSession() as session:
        async with session.get(url, headers=ACCEPT) as answer:
            families = list(openmetrics(await answer.text()))
        async with session.get(url) as answer:
            text = await answer.text()
    series: dict[str, list[dict[str, str]]] = {}
    for family in families:
        for sample in family.samples:
            series.setdefault(sample.name, []).append(sample.labels)
    return Scrape({family.name: family.type for family in families}, series, text)
