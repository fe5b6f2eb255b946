"""Offsets that a pin holds: what counts as drift."""

from __future__ import annotations

import pytest

from connect_reconciler.plan.diff import offsets_drifted
from connect_reconciler.plan.live import AppliedPin
from connect_specs.desired import JsonScalar, OffsetEntry

A, B = {"table": "a"}, {"table": "b"}


def _entry(partition: dict[str, str], value: JsonScalar) -> OffsetEntry:
    return OffsetEntry(partition, None if value is None else {"at": value})


@pytest.mark.parametrize(
    ("resolved", "now", "drifted"),
    [
        ([_entry(A, 5)], [_entry(A, 5)], False),
        ([_entry(A, 5)], [_entry(A, 5.0)], False),
        ([_entry(A, 5)], [_entry(A, 6)], True),
        ([_entry(A, 5)], [_entry(A, "5")], True),
        ([_entry(A, 5)], [], True),
        ([_entry(A, 5)], [_entry(A, None)], True),
        ([_entry(A, 5)], [_entry(B, 9), _entry(A, 5)], False),
        ([_entry(A, None)], [], False),
        ([_entry(A, None)], [_entry(A, 1)], True),
        (None, [], False),
        (None, [_entry(A, None)], False),
        (None, [_entry(A, 1)], True),
    ],
)
def test_drift(resolved: list[OffsetEntry] | None, now: list[OffsetEntry], drifted: bool) -> None:
    pin = AppliedPin("hash", None if resolved is None else tuple(resolved), held=True)
    assert offsets_drifted(pin, tuple(now)) is drifted
