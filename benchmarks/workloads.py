"""What is measured with records: one entry is one workload. Both workers get the same config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks import inputs
from benchmarks.inputs import Input

SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
_TRANSFORMS: Final = "org.apache.kafka.connect.transforms"
_JSON: Final = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
_PLAIN_JSON: Final = _JSON | {"value.converter.schemas.enable": "false"}
_HOIST: Final = {
    "transforms": "hoist",
    "transforms.hoist.type": f"{_TRANSFORMS}.HoistField$Value",
    "transforms.hoist.field": "line",
}
_CHAIN: Final = {
    "transforms": "insert,replace,mask",
    "transforms.insert.type": f"{_TRANSFORMS}.InsertField$Value",
    "transforms.insert.static.field": "source",
    "transforms.insert.static.value": "shop",
    "transforms.insert.topic.field": "topic",
    "transforms.replace.type": f"{_TRANSFORMS}.ReplaceField$Value",
    "transforms.replace.exclude": "city",
    "transforms.replace.renames": "name:customer",
    "transforms.mask.type": f"{_TRANSFORMS}.MaskField$Value",
    "transforms.mask.fields": "card",
    "transforms.mask.replacement": "****",
}
_ROUTED: Final = {
    "transforms": "route,filter",
    "transforms.route.type": f"{_TRANSFORMS}.RegexRouter",
    "transforms.route.regex": "(.*)",
    "transforms.route.replacement": "$1-routed",
    "transforms.filter.type": f"{_TRANSFORMS}.Filter",
    "transforms.filter.predicate": "chosen",
    "predicates": "chosen",
}
_DEAD_LETTERS: Final = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """One connector with one task. `ratio` is what our rate should be, as a multiple of Apache's;
    `limit` the same for the rate of Kafka's own performance test.

    Of a hundred records, `kept` are written and `dead` go to a dead letter queue. `routed` follows
    the topic's name. `ordered`: both workers write the same bytes in the same order; Java's maps
    without schema have an order of their own.
    """

    name: str
    what: str
    kind: Literal["source", "sink"]
    records: Input
    config: Mapping[str, str]
    ratio: float | None = None
    limit: float | None = None
    kept: int = 100
    dead: int = 0
    routed: str = ""
    ordered: bool = True


WORKLOADS: Final = (
    Workload("source", "source, strings", "source", inputs.LINES, {}, 5.0, limit=1.0),
    Workload("sink", "sink, strings", "sink", inputs.LINES, {}, 2.0, limit=0.8),
    Workload("source-1k", "source, strings of 1 kB", "source", inputs.LINES_1K, {}),
    Workload("sink-1k", "sink, strings of 1 kB", "sink", inputs.LINES_1K, {}),
    Workload("source-10k", "source, strings of 10 kB", "source", inputs.LINES_10K, {}),
    Workload("sink-10k", "sink, strings of 10 kB", "sink", inputs.MORE_LINES_10K, {}),
    Workload(
        "source-json",
        "source, HoistField, JSON with schemas",
        "source",
        inputs.FEWER_LINES,
        _JSON | _HOIST,
        3.0,
    ),
    Workload(
        "source-routed",
        "source, RegexRouter, Filter with TopicNameMatches",
        "source",
        inputs.FEWER_LINES,
        _ROUTED
        | {
            "predicates.chosen.type": f"{_TRANSFORMS}.predicates.TopicNameMatches",
            "predicates.chosen.pattern": "none",
        },
        2.0,
        routed="-routed",
    ),
    Workload(
        "sink-routed",
        "sink, RegexRouter, Filter with RecordIsTombstone",
        "sink",
        inputs.LINES_WITH_TOMBSTONES,
        _ROUTED | {"predicates.chosen.type": f"{_TRANSFORMS}.predicates.RecordIsTombstone"},
        2.0,
        kept=90,
    ),
    Workload(
        "sink-json",
        "sink, JSON without schemas, InsertField, ReplaceField, MaskField",
        "sink",
        inputs.CUSTOMERS,
        _PLAIN_JSON | _CHAIN,
        2.0,
        ordered=False,
    ),
    Workload(
        "sink-schemas",
        "sink, JSON with schemas, InsertField, ReplaceField, MaskField",
        "sink",
        inputs.CUSTOMERS_WITH_SCHEMAS,
        _JSON | _CHAIN,
        1.5,
    ),
    Workload(
        "sink-errors",
        "sink, JSON, 1 % of the records to a dead letter queue",
        "sink",
        inputs.CUSTOMERS_WITH_ERRORS,
        _PLAIN_JSON | _DEAD_LETTERS,
        1.5,
        kept=99,
        dead=1,
        ordered=False,
    ),
)
