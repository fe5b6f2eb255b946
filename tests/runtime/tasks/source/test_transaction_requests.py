"""What a source asks of its transactions: a commit or an abort, after a batch or after a record."""

from __future__ import annotations

import pytest

from connect_runtime.api import ConnectorError, SourceRecord
from connect_runtime.tasks.source.transactions import ConnectorBoundary, Ending

RECORD = SourceRecord({"p": 1}, {"n": 1}, "t", "a", partition=3)


def test_a_request_is_carried_out_once() -> None:
    boundary = ConnectorBoundary()
    boundary.commit_transaction()
    boundary.commit_transaction()
    boundary.abort_transaction(RECORD)
    assert boundary.ends_within_batch
    assert [boundary.after(RECORD) for _ in range(2)] == [Ending.ABORT, None]
    assert not boundary.ends_within_batch
    assert [boundary.after_batch() for _ in range(2)] == [Ending.COMMIT, None]


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (None, "Connector requested both commit and abort of same transaction"),
        (RECORD, "both commit and abort of same record against topic/partition t/3"),
    ],
)
def test_a_commit_and_an_abort_at_the_same_place_are_refused(
    record: SourceRecord | None, text: str
) -> None:
    boundary = ConnectorBoundary()
    boundary.commit_transaction(record)
    with pytest.raises(ConnectorError, match=text):
        boundary.abort_transaction(record)
