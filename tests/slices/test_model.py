import json
from typing import Any

import msgspec
import pytest

from global_discovery.slices.model import EndpointSlice, decode_slice
from support.imported import SAMPLES, read, sample, without_each_key


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_without_any_one_of_its_keys_is_still_a_slice(name: str) -> None:
    for smaller in without_each_key(SAMPLES[name]):
        assert isinstance(read(smaller), EndpointSlice)


def test_what_is_not_needed_is_not_looked_at() -> None:
    raw = {"metadata": {"name": "a", "managedFields": [1, "two"], "ownerReferences": 3}}
    assert read(raw).key == ("", "a")


def test_one_bad_leaf_costs_itself_and_nothing_beside_it() -> None:
    damaged = sample("odd/wrong-types")
    assert damaged.key == ("models", "wrong-0")
    assert damaged.label("multicluster.kubernetes.io/source-cluster") == "rome"
    assert damaged.label("count") == ""
    assert damaged.metadata.annotations is None
    assert damaged.ports is not None
    assert [port and port.port for port in damaged.ports] == [None, None, 8000]
    assert damaged.endpoints is not None
    assert [one is not None for one in damaged.endpoints] == [True, False, False, False]


@pytest.mark.parametrize(
    "raw",
    [
        {"metadata": 5, "endpoints": {}, "ports": "x", "addressType": 4},
        {"metadata": {"name": 1, "namespace": [], "labels": "l", "annotations": 2}},
        {"endpoints": [[]], "ports": [[1]]},
        {"ports": [{"name": "http", "port": 10**30}]},
        {"metadata": {"labels": {"a": None}}},
    ],
)
def test_any_object_at_all_is_read(raw: dict[str, Any]) -> None:
    assert isinstance(read(raw), EndpointSlice)


@pytest.mark.parametrize("text", ["[]", "7", "null", '"slice"', "{", "", '{"metadata": {}'])
def test_what_is_no_object_is_no_slice(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_slice(text.encode())


def test_a_slice_is_read_from_a_part_of_a_list() -> None:
    page = json.dumps({"items": [SAMPLES["karmada/hub-v4"]]}).encode()
    raw = msgspec.json.decode(page, type=dict[str, list[msgspec.Raw]])["items"][0]
    assert decode_slice(raw) == sample("karmada/hub-v4")
