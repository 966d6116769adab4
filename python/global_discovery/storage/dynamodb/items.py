"""The format of the table: which items there are, how they are named, written and read.

    pk          sk                      what
    r#<00-15>   s#<pool>#<share>        renewal item: at most 300 bytes
    r#<00-15>   d#<lease_id>            tombstone: that lease was withdrawn
    c#<hash>    c                       content item: all that a share says, named by its hash
    beacons     <region>#<instance>     beacon: an instance lives there

The first two lie together in sixteen partitions, by the hash of the pool's key,
and are all that a refresh reads; within a partition the tombstones come first.
Numbers and strings of the renewal item have names of one letter, see `_Renewal`.

Format 1, and its promise to later ones: an attribute that is not known is left
as it is when an item is updated and ignored when it is read; a higher format
number does not stop a reader; what a later format says of a pool goes into its
content item, whose hash then differs, and which nobody changes once written.
"""

import hashlib
import json
import math
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from global_discovery.domain.pool import Content, PoolKey
from global_discovery.storage import checked
from global_discovery.storage.content_json import decode_content, encode_content
from global_discovery.storage.dynamodb.api import Item
from global_discovery.storage.store import StoredShare

FORMAT = 1
PARTITIONS = tuple(f"r#{number:02}" for number in range(16))
BEACONS = "beacons"
SHARE, TOMBSTONE = "s#", "d#"
KEPT_SECONDS = 7 * 86_400
"""TTL removes what was not written for so long."""
MAX_NAME = 256
"""Bytes of a lease id or a hash; four times what this format writes."""
REFRESH_ATTRIBUTES = "sk,l,g,c,w,h,n,t,r,q,s,k"


class Unreadable(Exception):
    """An item lacks what every format has; the text names it, for the log."""


class Renewal(NamedTuple):
    """What a renewal item says, apart from its key."""

    lease_id: str  # l
    granted: float  # g
    counter: str  # c, as it is written: it is only compared, and counted up by one
    writer: str  # w, the instance that wrote it last
    content_hash: str  # h
    number: int  # n
    renewed_time: float  # t, wall time of the writer
    registered_time: float  # r
    sequence: int = 0  # q, the caller's number of the call that last changed it


def digest(*texts: str) -> str:
    """128 bits that name these texts, 22 characters."""
    data = json.dumps(texts, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return urlsafe_b64encode(hashlib.sha256(data).digest()[:16]).decode().rstrip("=")


class Place(NamedTuple):
    """Where the renewal item of a share is."""

    pk: str
    sk: str

    @property
    def key(self) -> Item:
        """As DynamoDB wants it."""
        return item_key(self.pk, self.sk)


def item_key(pk: str, sk: str) -> Item:
    """The key of an item."""
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def partition_of(key: PoolKey) -> str:
    """The partition of a pool's renewal items and tombstones."""
    return PARTITIONS[hashlib.sha256(digest(*key).encode()).digest()[0] % len(PARTITIONS)]


def pool_prefix(key: PoolKey) -> str:
    """What the sort keys of all shares of a pool begin with."""
    return f"{SHARE}{digest(*key)}#"


def place_of(key: PoolKey, identity: tuple[str, str]) -> Place:
    """Where that share's renewal item is."""
    return Place(partition_of(key), pool_prefix(key) + digest(*identity))


def content_key(content_hash: str) -> Item:
    """The key of a content item."""
    return item_key(f"c#{content_hash}", "c")


class Texts(NamedTuple):
    """All that a share says, in one spelling."""

    owner: str  # o, whose content it is, and the relays
    content: str  # j

    @property
    def content_hash(self) -> str:
        """Names the content item."""
        return digest(*self)


def texts_of(share: StoredShare) -> Texts:
    """What its content item says."""
    owner = {"key": share.key, "identity": share.identity, "relays": share.relays}
    return Texts(
        json.dumps(owner, ensure_ascii=False, separators=(",", ":")),
        encode_content(share.content).decode(),
    )


def content_item(content_hash: str, texts: Texts, *, expires_at: int) -> Item:
    """What is put there. Content items are the same whoever writes them."""
    return {
        **content_key(content_hash),
        "v": number_value(FORMAT),
        "o": {"S": texts.owner},
        "j": {"S": texts.content},
        "expires_at": number_value(expires_at),
    }


class Said(NamedTuple):
    """What a content item says."""

    key: PoolKey
    identity: tuple[str, str]
    relays: tuple[str, ...]
    content: Content

    def of(self, share: StoredShare) -> bool:
        """Whether it says the same as that share."""
        return self == (share.key, share.identity, share.relays, share.content)


def read_content(item: Item) -> Said:
    """What it says. Raises Unreadable."""
    try:
        owner = json.loads(item["o"]["S"])
        kind, value = checked.texts(owner["identity"])
        return Said(
            key=checked.key(owner["key"]),
            identity=(kind, value),
            relays=checked.texts(owner["relays"]),
            content=decode_content(item["j"]["S"]),
        )
    except (KeyError, TypeError, ValueError, RecursionError) as problem:
        raise Unreadable(f"content item: {type(problem).__name__} {problem}") from None


def read_renewal(item: Item) -> Renewal:
    """Raises Unreadable."""
    try:
        return Renewal(
            lease_id=_name(item["l"]["S"]),
            granted=checked.lease_seconds(float(item["g"]["N"])),
            counter=str(int(item["c"]["N"])),
            writer=checked.text(item["w"]["S"]),
            content_hash=_name(item["h"]["S"]),
            number=checked.whole(int(item["n"]["N"])),
            renewed_time=checked.wall_time(float(item["t"]["N"])),
            registered_time=checked.wall_time(float(item["r"]["N"])),
            sequence=int(text_of(item, "q", "N") or 0),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise Unreadable(f"renewal item: {type(problem).__name__} {problem}") from None


def _name(value: object) -> str:
    """A part of other items' keys: one that is empty or too long would fail the read of all."""
    name = checked.text(value)
    if not 1 <= len(name.encode()) <= MAX_NAME:
        raise ValueError(f"a name of {len(name.encode())} bytes")
    return name


def next_counter(counter: str) -> str:
    """One more."""
    return str(int(counter) + 1)


def update_of(  # one argument an attribute, all of them named
    table: str, place: Place, new: Renewal, *, old: Renewal | None, expires_at: int
) -> dict[str, Any]:
    """An UpdateItem that writes `new` where `old` still is; None: where nothing is.

    A renewal writes only what a renewal changes, and nothing is taken away: what
    a later format keeps beside it stays.
    """
    written = {
        "c": number_value(new.counter),
        "w": {"S": new.writer},
        "t": number_value(time_text(new.renewed_time)),
        "expires_at": number_value(expires_at),
    }
    if old is None or old._replace(counter="", writer="", renewed_time=0.0) != new._replace(
        counter="", writer="", renewed_time=0.0
    ):
        written |= {
            "l": {"S": new.lease_id},
            "g": number_value(f"{new.granted:g}"),
            "h": {"S": new.content_hash},
            "n": number_value(new.number),
            "r": number_value(time_text(new.registered_time)),
            "q": number_value(new.sequence),
            "v": number_value(FORMAT),
        }
    values: dict[str, Any] = {f":{name}": value for name, value in written.items()}
    condition = "attribute_not_exists(pk)"
    if old is not None:
        condition = "l = :oldl AND c = :oldc"
        values |= {":oldl": {"S": old.lease_id}, ":oldc": number_value(old.counter)}
    return {
        "TableName": table,
        "Key": place.key,
        "UpdateExpression": "SET " + ", ".join(f"{name} = :{name}" for name in written),
        "ConditionExpression": condition,
        "ExpressionAttributeValues": values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def tombstone_item(  # one argument an attribute
    place: Place, lease_id: str, *, remember: float, now: float, writer: str
) -> Item:
    """`now` is wall time, for people."""
    return {
        **item_key(place.pk, TOMBSTONE + lease_id),
        "v": number_value(FORMAT),
        "s": {"S": place.sk},
        "k": number_value(f"{remember:g}"),
        "w": {"S": writer},
        "t": number_value(time_text(now)),
        "expires_at": number_value(int(now) + KEPT_SECONDS),
    }


def beacon_item(region: str, instance: str, *, counter: int, interval: float, now: float) -> Item:
    """`interval` is in seconds, `now` wall time."""
    return {
        **item_key(BEACONS, f"{region}#{instance}"),
        "v": number_value(FORMAT),
        "c": number_value(counter),
        "i": number_value(f"{interval:g}"),
        "t": number_value(time_text(now)),
        "expires_at": number_value(int(now) + KEPT_SECONDS),
    }


def time_text(seconds: float) -> str:
    """A wall time as it is written."""
    return f"{seconds:.1f}"


def number_value(number: float | str) -> dict[str, Any]:
    """A number as an attribute's value."""
    return {"N": str(number)}


def text_of(item: Mapping[str, Mapping[str, Any]], name: str, kind: str = "S") -> str:
    """An attribute's text; empty where it is not there."""
    value = item.get(name)
    return str(value.get(kind, "")) if isinstance(value, Mapping) else ""


def number_of(item: Mapping[str, Mapping[str, Any]], name: str) -> float:
    """An attribute's number; 0 where it is not there or none."""
    try:
        number = float(text_of(item, name, "N") or 0.0)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0
