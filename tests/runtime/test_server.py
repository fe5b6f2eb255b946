"""What a runtime gives to the parts that it starts."""

from __future__ import annotations

import pytest

from connect_runtime.server import patience_s
from connect_runtime.settings.worker_config import from_properties

_WORKER = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


@pytest.mark.parametrize(
    ("support", "seconds"), [("enabled", 0), ("preparing", 0), ("disabled", 17)]
)
def test_former_leaders_tasks_get_time_to_report_their_end_where_nothing_fences_them(
    support: str, seconds: float
) -> None:
    given = {
        "exactly.once.source.support": support,
        "task.shutdown.graceful.timeout.ms": "7000",
    }
    config, _ = from_properties(_WORKER | given)
    assert patience_s(config) == seconds
