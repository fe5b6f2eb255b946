"""Comparing partitions and pins; the payload of `offsets alter`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_specs.desired import OffsetEntry, Pin, content_hash, is_sink_partition, partition_key
from connect_specs.diagnostics import Invalid, Location
from connect_specs.pins import read_offsets_json

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
MAPS = st.dictionaries(st.text(), SCALARS, max_size=15)
ENTRIES = st.lists(
    st.builds(OffsetEntry, MAPS, st.none() | MAPS),
    max_size=5,
    unique_by=lambda entry: partition_key(entry.partition),
)


def reordered(mapping: dict[str, Any]) -> dict[str, Any]:
    return dict(reversed(mapping.items()))


def test_partitions_differ_by_the_types_of_their_values() -> None:
    assert partition_key({"b": "é", "a": 1}) == '{"a":1,"b":"é"}'
    different = [1, 1.0, "1", True, None, "true", "null"]
    assert len({partition_key({"k": value}) for value in different}) == len(different)


@given(MAPS)
def test_the_order_of_keys_does_not_matter(partition: dict[str, Any]) -> None:
    assert partition_key(partition) == partition_key(reordered(partition))
    assert json.loads(partition_key(partition)) == partition


def test_is_sink_partition() -> None:
    assert is_sink_partition({"kafka_topic": "t", "kafka_partition": 0})
    assert not is_sink_partition({"kafka_topic": "t"})
    assert not is_sink_partition({"topic": "t", "partition": 0})


@given(ENTRIES)
def test_the_hash_of_a_pin_is_of_its_content_only(entries: list[OffsetEntry]) -> None:
    pin = Pin("a", tuple(entries))
    turned = [
        OffsetEntry(reordered(dict(e.partition)), e.offset and reordered(dict(e.offset)))
        for e in reversed(entries)
    ]
    assert content_hash(pin) == content_hash(Pin("b", tuple(turned), where=Location("f", 1, 1)))


@given(ENTRIES.filter(bool), MAPS)
def test_another_content_has_another_hash(
    entries: list[OffsetEntry], other: dict[str, Any]
) -> None:
    pin = Pin("a", tuple(entries))
    changed = replace(entries[0], offset={**(entries[0].offset or {}), "another key": 1})
    assert content_hash(pin) != content_hash(replace(pin, set=(changed, *entries[1:])))
    assert content_hash(pin) != content_hash(replace(pin, set=tuple(entries[1:])))


def test_hashes_stay_what_the_ledger_holds() -> None:
    """These are written into ledgers: a change of the algorithm would make every pin a new one."""
    entry = OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5})
    assert content_hash(Pin("p", (entry,))) == (
        "4382ccb0b1c097394591751a09cbe1f13589030fa9fcd49c1376a1650fa045e1"
    )
    assert content_hash(Pin("p", reset=True)) == (
        "ed2dd13b3d1fbd89bdf498617d35d13b0d1a11c1ecee997e96cf9af9c19bc1b6"
    )


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ('{"offsets": [{"partition": {"p": 1}, "offset": null}]}', []),
        ('{"offsets": []}', ["offsets.empty-set"]),
        ('{"offsets": {"partition": {}}}', ["offsets.bad-value"]),
        ('{"offsets": [{"partition": {"p": 1}}]}', ["offsets.missing-field"]),
        ("{}", ["offsets.missing-field"]),
        ("[]", ["offsets.missing-field"]),
    ],
)
def test_the_payload_of_offsets_alter_is_read_by_the_rules_of_a_pin(
    text: str, codes: list[str]
) -> None:
    if not codes:
        assert read_offsets_json(text, "o.json") == (OffsetEntry({"p": 1}, None),)
        return
    with pytest.raises(Invalid) as error:
        read_offsets_json(text, "o.json")
    assert [each.code for each in error.value.diagnostics] == codes
    assert all(str(each.where).startswith("o.json:1:") for each in error.value.diagnostics)
