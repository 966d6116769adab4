"""No message, however damaged, is answered as if the server had a fault.

Three kinds: valid messages with damage done to their bytes, messages of the right
structure with hostile values, and damage to the structure itself (fields twice, of
a wrong wire type, unknown, nested without end).
"""

from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from support.hostile import hostile
from support.hostile_protobuf import a_message, damaged, wire_fields
from support.hostile_target import ALLOWED, METHODS, Target, request_type

METHOD = st.sampled_from(METHODS)


def attack(target: Target, method: str, data: bytes) -> None:
    note(f"{method} {data[:4096].hex()}")
    code, _ = target.raw(method, data)
    assert code in ALLOWED, code


@hostile(examples=150, method=METHOD, data=st.data())
def test_a_damaged_message_is_refused_or_understood(target: Target, method: str, data: Any) -> None:
    good = data.draw(a_message(request_type(method).DESCRIPTOR)).SerializeToString()
    attack(target, method, data.draw(damaged(good)))


@hostile(examples=150, method=METHOD, data=st.data())
def test_a_message_with_hostile_values_is_refused_or_understood(
    target: Target, method: str, data: Any
) -> None:
    message = data.draw(a_message(request_type(method).DESCRIPTOR))
    attack(target, method, message.SerializeToString())


@hostile(examples=150, method=METHOD, fields=wire_fields())
def test_a_message_of_another_structure_is_refused_or_understood(
    target: Target, method: str, fields: bytes
) -> None:
    attack(target, method, fields)


@hostile(examples=40, method=METHOD, noise=st.binary(max_size=300), times=st.integers(1, 3000))
def test_noise_of_any_length_is_refused_or_understood(
    target: Target, method: str, noise: bytes, times: int
) -> None:
    attack(target, method, (noise * times)[: 1024 * 1024])
