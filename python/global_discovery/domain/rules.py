"""The rules of a registration, once for both faces.

A face hands over plain Python values of the right types; what comes back is a
valid, normalised `Registration`, or `InvalidInput` with every broken rule at
once. The work is bounded for any input that fits into a message: a set above
its limit is refused as a whole, without a look at its members.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from global_discovery.domain import frontend_url
from global_discovery.domain.errors import MAX_VIOLATIONS_TOLD, InvalidInput, Violation
from global_discovery.domain.pool import Content, Location, PoolKey, Registration

MAX_STRING_BYTES = 253
MAX_MODEL_BYTES = 1024
MAX_CAPABILITIES = 256
MAX_CAPACITY_ENTRIES = 256
MAX_CAPACITY_GIVEN = 4 * MAX_CAPACITY_ENTRIES
"""Before those of one sku are added up."""
MAX_GPU_COUNT = 1_000_000
MAX_FRONTENDS = 1024
MAX_RELAYS = 256
MAX_RELAY_ID_BYTES = 128
MAX_LEASE_ID_BYTES = 64
MAX_SEQUENCE = 2**64 - 1
MAX_REGISTRATION_BYTES = 64 * 1024
MAX_RENEWALS = 10_000

_KEY_PART = re.compile(r"[!-.0-~](?:[ -.0-~]{0,251}[!-.0-~])?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(slots=True)
class RawRegistration:
    """What a caller sent, with the right types and otherwise unchecked.

    An absent string is empty, an absent list is empty: both faces agree on it.
    """

    cluster_id: str = ""
    namespace: str = ""
    dgd_name: str = ""
    model: str = ""
    region: str = ""
    availability_zone: str = ""
    datacenter: str = ""
    capabilities: Sequence[str] = ()
    capacity: Sequence[tuple[str, int]] = ()
    frontends: Sequence[str] = ()
    relays: Sequence[str] = ()


@dataclass(slots=True)
class _Violations:
    """Collects broken rules; keeps the first ones and counts the rest."""

    kept: list[Violation] = field(default_factory=list)
    total: int = 0

    def add(self, name: str, message: str) -> None:
        self.total += 1
        if len(self.kept) < 2 * MAX_VIOLATIONS_TOLD:
            self.kept.append(Violation(name, message))

    def raise_if_any(self) -> None:
        if self.total:
            raise InvalidInput(self.kept, total=self.total)


def check_registration(
    raw: RawRegistration, *, relay_id: str = "", lease_id: str = "", sequence: int = 0
) -> Registration:
    """The registration in its normalised form.

    Raises InvalidInput, which names every offending field of the call at once,
    those beside the registration too.
    """
    bad = _Violations()
    _caller_ids(bad, relay_id, lease_id, sequence)
    key = _key(raw.cluster_id, raw.namespace, raw.dgd_name, bad)
    _string(raw.model, "model", bad, required=True, max_bytes=MAX_MODEL_BYTES)
    _string(raw.region, "location.region", bad, required=True)
    _string(raw.availability_zone, "location.availability_zone", bad)
    _string(raw.datacenter, "location.datacenter", bad)
    content = Content(
        model=raw.model,
        location=Location(raw.region, raw.availability_zone, raw.datacenter),
        capabilities=_set(raw.capabilities, "capabilities", MAX_CAPABILITIES, _checked_string, bad),
        capacity=_capacity(raw.capacity, bad),
        frontends=_set(raw.frontends, "frontends", MAX_FRONTENDS, frontend_url.normalize, bad),
    )
    registration = Registration(key, content, check_relays(raw.relays, bad))
    if not bad.total and encoded_size(registration) > MAX_REGISTRATION_BYTES:
        bad.add("registration", f"is larger than {MAX_REGISTRATION_BYTES} bytes")
    bad.raise_if_any()
    return registration


def check_key(cluster_id: str, namespace: str, dgd_name: str) -> PoolKey:
    """The key of a call that names nothing but a pool. Raises InvalidInput."""
    bad = _Violations()
    key = _key(cluster_id, namespace, dgd_name, bad)
    bad.raise_if_any()
    return key


def check_caller_ids(*, relay_id: str = "", lease_id: str = "", sequence: int = 0) -> None:
    """The fields of a call that are not of the pool. Raises InvalidInput."""
    good = _is_id(relay_id, MAX_RELAY_ID_BYTES) and _is_id(lease_id, MAX_LEASE_ID_BYTES)
    if good and 0 <= sequence <= MAX_SEQUENCE:
        return
    bad = _Violations()
    _caller_ids(bad, relay_id, lease_id, sequence)
    bad.raise_if_any()


def check_lease_ids(lease_ids: Sequence[str]) -> None:
    """The ids of one batch of renewals. Raises InvalidInput."""
    bad = _Violations()
    if len(lease_ids) > MAX_RENEWALS:
        bad.add("lease_ids", f"must have at most {MAX_RENEWALS} ids")
    else:
        for index, lease_id in enumerate(lease_ids):
            if len(lease_id) > MAX_LEASE_ID_BYTES or (
                not lease_id.isascii()
                and len(lease_id.encode(errors="surrogatepass")) > MAX_LEASE_ID_BYTES
            ):
                bad.add(f"lease_ids[{index}]", f"must have at most {MAX_LEASE_ID_BYTES} bytes")
    bad.raise_if_any()


def check_relays(relays: Sequence[str], bad: _Violations | None = None) -> tuple[str, ...]:
    """The relay identities as they are listed. Raises InvalidInput unless `bad` collects."""
    mine = _Violations() if bad is None else bad
    checked = _set(relays, "relays", MAX_RELAYS, relay_identity, mine)
    if bad is None:
        mine.raise_if_any()
    return checked


@lru_cache(maxsize=4_096)
def relay_identity(relay: str) -> str:
    """The one spelling of `ip:<address>`. Raises ValueError with what is wrong."""
    if not relay.startswith("ip:"):
        raise ValueError("must be of the form ip:<address>")
    return f"ip:{canonical_address(relay[3:])}"


def canonical_address(address: str) -> str:
    """The one spelling of an IP address, IPv4-mapped as IPv4. Raises ValueError."""
    try:
        ip = ip_address(address)
    except ValueError:
        raise ValueError("has no valid IP address") from None
    if isinstance(ip, IPv6Address):
        if ip.scope_id is not None:
            raise ValueError("has an IPv6 address with a zone")
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
    return str(ip)


def encoded_size(registration: Registration) -> int:
    """How many bytes the registration has as a PoolRegistration message.

    Counted from the protobuf encoding's own rules (a tag of one byte, a length,
    the bytes), so that the domain needs no protobuf; a test compares the two.
    """
    content, location = registration.content, registration.content.location
    strings = (*content.capabilities, *content.frontends, *registration.relays, content.model)
    size = sum(_field_size(len(text.encode())) for text in strings)
    for sku, count in content.capacity:
        size += _field_size(_field_size(len(sku.encode())) + 1 + _varint_size(count))
    size += _field_size(sum(_field_size(len(part)) for part in registration.key))
    parts = (location.region, location.availability_zone, location.datacenter)
    return size + _field_size(sum(_field_size(len(part.encode())) for part in parts if part))


def _field_size(payload: int) -> int:
    return 1 + _varint_size(payload) + payload


def _varint_size(number: int) -> int:
    return max(1, (number.bit_length() + 6) // 7)


def _key(cluster_id: str, namespace: str, dgd_name: str, bad: _Violations) -> PoolKey:
    key = PoolKey(cluster_id, namespace, dgd_name)
    for name, part in zip(PoolKey._fields, key, strict=True):
        if not part:
            bad.add(name, "is required")
        elif part in {".", ".."} or not _KEY_PART.fullmatch(part):
            bad.add(
                name,
                "must be 1 to 253 bytes of printable ASCII without '/', not '.' or '..', "
                "with no space at either end",
            )
    return key


def _string(
    text: str,
    name: str,
    bad: _Violations,
    *,
    required: bool = False,
    max_bytes: int = MAX_STRING_BYTES,
) -> None:
    if not text:
        if required:
            bad.add(name, "is required")
        return
    problem = _string_problem(text, max_bytes)
    if problem:
        bad.add(name, problem)


def _string_problem(text: str, max_bytes: int) -> str:
    if _CONTROL.search(text):
        return "must have no control character"
    if len(text) > max_bytes or len(text.encode()) > max_bytes:
        return f"must be 1 to {max_bytes} bytes"
    if text.strip() != text:
        return "must have no white space at either end"
    return ""


def _checked_string(text: str) -> str:
    problem = _string_problem(text, MAX_STRING_BYTES) if text else "must not be empty"
    if problem:
        raise ValueError(problem)
    return text


def _set(
    values: Sequence[str],
    name: str,
    limit: int,
    normalize: Callable[[str], str],
    bad: _Violations,
) -> tuple[str, ...]:
    """Sorted, without duplicates, each member normalised."""
    if not values:
        return ()
    distinct = dict.fromkeys(values)
    if len(distinct) > limit:
        bad.add(name, f"must have at most {limit} different entries")
        return ()
    normal = set()
    problems = []
    for value in distinct:
        try:
            normal.add(normalize(value))
        except ValueError as problem:
            problems.append((value, str(problem)))
    if problems:
        first = dict(zip(reversed(values), range(len(values) - 1, -1, -1), strict=True))
        for value, text in problems:
            bad.add(f"{name}[{first[value]}]", text)
    return tuple(sorted(normal))


def _capacity(entries: Sequence[tuple[str, int]], bad: _Violations) -> tuple[tuple[str, int], ...]:
    """One entry a sku, sorted; the counts of one sku are added up."""
    if len(entries) > MAX_CAPACITY_GIVEN:
        bad.add("capacity", f"must have at most {MAX_CAPACITY_GIVEN} entries")
        return ()
    counts: dict[str, int] = {}
    for index, (sku, count) in enumerate(entries):
        _string(sku, f"capacity[{index}].gpu_sku", bad, required=True)
        if not 1 <= count <= MAX_GPU_COUNT:
            bad.add(f"capacity[{index}].gpu_count", f"must be 1 to {MAX_GPU_COUNT}")
        elif counts.get(sku, 0) + count > MAX_GPU_COUNT:
            bad.add(f"capacity[{index}].gpu_count", f"adds up to more than {MAX_GPU_COUNT}")
        else:
            counts[sku] = counts.get(sku, 0) + count
    if len(counts) > MAX_CAPACITY_ENTRIES:
        bad.add("capacity", f"must have at most {MAX_CAPACITY_ENTRIES} different skus")
    return tuple(sorted(counts.items()))


def _caller_ids(bad: _Violations, relay_id: str, lease_id: str, sequence: int) -> None:
    if not _is_id(relay_id, MAX_RELAY_ID_BYTES):
        bad.add("relay_id", f"must be at most {MAX_RELAY_ID_BYTES} bytes of printable ASCII")
    if not _is_id(lease_id, MAX_LEASE_ID_BYTES):
        bad.add("lease_id", f"must be at most {MAX_LEASE_ID_BYTES} bytes of printable ASCII")
    if not 0 <= sequence <= MAX_SEQUENCE:
        bad.add("sequence", f"must be 0 to {MAX_SEQUENCE}")


def _is_id(text: str, max_bytes: int) -> bool:
    return len(text) <= max_bytes and text.isascii() and text.isprintable()
