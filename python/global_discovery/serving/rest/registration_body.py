"""The body of `POST /pools`: JSON values to what the rules check.

Here only types are looked at: every value of a wrong type is told with its
field. What a value may be is the rules' matter. `null` is as absent.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from global_discovery.domain import rules
from global_discovery.domain.errors import MAX_VIOLATIONS_TOLD, InvalidInput, Violation
from global_discovery.domain.pool import Registration
from global_discovery.serving.byte_cache import ByteCache
from global_discovery.serving.rest import problem, strict_json

_BEYOND_ANY_RANGE = 10**24


class RegisterCall(NamedTuple):
    """One checked body."""

    registration: Registration
    relay_id: str
    lease_id: str
    sequence: int


class RegistrationBodies:
    """Reads bodies; the same small one is read and checked once, not at each heartbeat."""

    def __init__(self) -> None:
        """Nothing read yet."""
        self._checked: ByteCache[RegisterCall] = ByteCache()

    def read(self, body: bytes) -> RegisterCall:
        """The call. Raises Problem for JSON and types (400), InvalidInput for values (422)."""
        call = self._checked.get(body)
        if call is None:
            call = _read(body)
            self._checked.put(body, call)
        return call


def _read(body: bytes) -> RegisterCall:
    try:
        members = strict_json.parse_object(body)
    except strict_json.Malformed as error:
        raise problem.Problem(400, "MALFORMED_JSON", str(error)) from None
    wrong = _WrongTypes()
    fields = _Fields(members, "", wrong)
    location = fields.object("location")
    raw = rules.RawRegistration(
        cluster_id=fields.text("cluster_id"),
        namespace=fields.text("namespace"),
        dgd_name=fields.text("dgd_name"),
        model=fields.text("model"),
        region=location.text("region"),
        availability_zone=location.text("availability_zone"),
        datacenter=location.text("datacenter"),
        capabilities=fields.texts("capabilities"),
        capacity=[
            (entry.text("gpu_sku"), entry.whole("gpu_count"))
            for entry in fields.objects("capacity")
        ],
        frontends=fields.texts("frontends"),
        relays=fields.texts("relays"),
    )
    relay_id, lease_id = fields.text("relay_id"), fields.text("lease_id")
    sequence = fields.whole("sequence")
    wrong.raise_if_any()
    registration = rules.check_registration(
        raw, relay_id=relay_id, lease_id=lease_id, sequence=sequence
    )
    return RegisterCall(registration, relay_id, lease_id, sequence)


class _WrongTypes:
    """Collects what has a wrong type; keeps the first ones and counts the rest."""

    def __init__(self) -> None:
        self._kept: list[Violation] = []
        self._total = 0

    def add(self, field: str, wanted: str) -> None:
        self._total += 1
        if self._total <= MAX_VIOLATIONS_TOLD:
            self._kept.append(Violation(field, f"must be {wanted}"))

    def add_members(self, field: str, indexes: Iterator[int], wanted: str) -> None:
        for index in islice(indexes, MAX_VIOLATIONS_TOLD):
            self.add(f"{field}[{index}]", wanted)
        self._total += sum(1 for _ in indexes)

    def raise_if_any(self) -> None:
        if self._total:
            error = InvalidInput(self._kept, total=self._total)
            raise problem.of(error, status=400)


class _Fields:
    """Reads the members of one object; what is absent has the empty value of its type."""

    def __init__(self, members: Mapping[str, Any], prefix: str, wrong: _WrongTypes) -> None:
        self._members = members
        self._prefix = prefix
        self._wrong = wrong

    def text(self, name: str) -> str:
        value = self._members.get(name)
        if isinstance(value, str):
            return value
        return "" if value is None else self._refuse(name, "a string", "")

    def whole(self, name: str) -> int:
        """8.0 is a whole number (as JSON Schema has it); true and "8" are none."""
        value = self._members.get(name)
        if type(value) is int:
            return value
        if type(value) is float:
            if value.is_integer():
                return int(value)
            if value in {float("inf"), float("-inf")}:
                return _BEYOND_ANY_RANGE if value > 0 else -_BEYOND_ANY_RANGE
        return 0 if value is None else self._refuse(name, "a whole number", 0)

    def texts(self, name: str) -> list[str]:
        values = self._list(name, "an array of strings")
        if all(type(value) is str for value in values):
            return values
        wrong = (index for index, value in enumerate(values) if type(value) is not str)
        self._wrong.add_members(self._prefix + name, wrong, "a string")
        return []

    def object(self, name: str) -> "_Fields":
        value = self._members.get(name)
        if value is None:
            value = {}
        elif type(value) is not dict:
            value = self._refuse(name, "an object", {})
        return _Fields(value, f"{self._prefix}{name}.", self._wrong)

    def objects(self, name: str) -> "Iterator[_Fields]":
        values = self._list(name, "an array of objects")
        wrong = (index for index, value in enumerate(values) if type(value) is not dict)
        self._wrong.add_members(self._prefix + name, wrong, "an object")
        for index, value in enumerate(values):
            if type(value) is dict:
                yield _Fields(value, f"{self._prefix}{name}[{index}].", self._wrong)

    def _list(self, name: str, wanted: str) -> list[Any]:
        value = self._members.get(name)
        if isinstance(value, list):
            return value
        return [] if value is None else self._refuse(name, wanted, [])

    def _refuse(self, name: str, wanted: str, empty: Any) -> Any:
        self._wrong.add(self._prefix + name, wanted)
        return empty
