"""What was checked is remembered within bounds, whatever is sent."""

from global_discovery.serving.byte_cache import MAX_BYTES, VALUE_BYTES, ByteCache


def test_very_many_short_keys_are_bounded_by_their_values() -> None:
    cache: ByteCache[int] = ByteCache()
    for number in range(3 * MAX_BYTES // VALUE_BYTES):
        cache.put(b"%d" % number, number)
    assert len(cache) <= MAX_BYTES // VALUE_BYTES


def test_what_is_asked_for_stays() -> None:
    cache: ByteCache[int] = ByteCache(max_bytes=10 * (VALUE_BYTES + 4))
    cache.put(b"kept", 1)
    for number in range(100):
        cache.put(b"%04d" % number, number)
        assert cache.get(b"kept") == 1
