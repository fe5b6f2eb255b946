"""Ledgers that were written by released versions load, and mean the same for ever.

`data/<version>/*.jsonl` hold records as that version wrote them: of the ledger topic, one a line,
and of the config key used over REST alone (`config-key*.jsonl`). `<file>.means.json` holds what
they mean. Neither is ever changed: a version that writes other records gets a folder of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from connect_reconciler.ledger.config_entry import load_entry
from connect_reconciler.ledger.topic import LedgerSnapshot, LedgerUnreadable, reduce_all
from connect_reconciler.model.config_values import LEDGER_KEY, Plain, Value
from connect_reconciler.model.ledger import ConnectorSnapshot
from connect_runtime.storage.log import LogRecord

DATA = Path(__file__).parent / "data"
TOPICS = sorted(DATA.glob("*/topic*.jsonl"))
CONFIG_KEYS = sorted(DATA.glob("*/config-key*.jsonl"))
# What those versions knew of; a field that came later is no part of what they mean
OWNED = "project config state prevent_delete held_from applied_ms resuming env"
# Recorded under another name than the code uses
FIELDS = {"held_from": "restore_to"}
PIN = "content_hash resolved applied_ms held"
JOURNAL = "id project by since_ms actions ending ended_ms exit_code rolls_back saved_as"
STEP = "number connector action started_ms end ended_ms detail"
BEFORE = "target owner prevent_delete offsets renamed_from"
KINDS = {b"connector", b"pin", b"rename", b"meta", b"apply", b"before"}


def lines(file: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in file.read_text().splitlines()]


def records(file: Path) -> list[LogRecord]:
    return [
        LogRecord("ledger", 0, number, 0, each["key"].encode(), value and value.encode())
        for number, each in enumerate(lines(file))
        for value in (each["value"],)
    ]


def means(file: Path) -> Any:
    return orjson.loads(file.with_suffix(".means.json").read_bytes())


def plain(value: object) -> Any:
    """As JSON holds it."""
    return orjson.loads(orjson.dumps(value, list, orjson.OPT_NON_STR_KEYS))


def of(value: object, names: str) -> dict[str, object]:
    return {name: getattr(value, FIELDS.get(name, name)) for name in names.split()}


def meaning(snapshot: LedgerSnapshot) -> Any:
    """All that planning, `history` and `rollback` read from a ledger topic."""
    state = snapshot.state
    return plain(
        {
            "connectors": {name: of(owned, OWNED) for name, owned in state.connectors.items()},
            "pins": [
                {"connector": name, "pin": pin, **of(applied, PIN)}
                for (name, pin), applied in sorted(state.pins.items())
            ],
            "renames": [
                {"connector": name, "from": old, "stage": each.stage, "held": each.held}
                for (name, old), each in sorted(state.renames.items())
            ],
            "fingerprint_key": state.fingerprint_key and state.fingerprint_key.hex(),
            "unfinished": [
                {
                    "id": each.id,
                    "by": each.by,
                    "project": each.project,
                    "steps": [[step.connector, step.action] for step in each.steps],
                }
                for each in state.unfinished
            ],
            "applies": [
                of(journal, JOURNAL)
                | {
                    "steps": [of(step, STEP) for step in snapshot.steps(apply_id)],
                    "before": {
                        name: of_before(each) for name, each in snapshot.snapshots(apply_id).items()
                    },
                    "later": {
                        name: [list(each.applies), each.moved, dict(each.renamed)]
                        for name, each in sorted(snapshot.later(apply_id).items())
                    },
                    "rolled_back": snapshot.rolled_back(apply_id),
                }
                for apply_id, journal in snapshot.applies.items()
            ],
        }
    )


def of_before(before: ConnectorSnapshot) -> Any:
    config = before.config
    return (
        of(before, BEFORE)
        | {
            "config": config and {key: value_meaning(each) for key, each in config.items()},
            "pins": {pin: of(each, PIN) for pin, each in sorted(before.pins.items())},
        }
        | ({"ignore": before.ignore} if before.ignore else {})
    )


def value_meaning(value: Value) -> list[str]:
    return ["plain", value.text] if isinstance(value, Plain) else ["secret", value.fingerprint]


def entry_meaning(name: str, text: str) -> Any:
    """All that planning reads from the config key of a connector."""
    entry = load_entry(name, text)
    return plain(
        {
            "connector": name,
            "owned": of(entry.owned, OWNED),
            "pins": {pin: of(each, PIN) for pin, each in sorted(entry.pins.items())},
            "renames": {
                old: {"stage": each.stage, "held": each.held}
                for old, each in sorted(entry.renames.items())
            },
        }
    )


def test_there_are_records_of_every_kind() -> None:
    found = {each.key.split(b"/")[0] for file in TOPICS for each in records(file) if each.key}
    assert found >= KINDS
    assert TOPICS and CONFIG_KEYS


@pytest.mark.parametrize("file", TOPICS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_recorded_topic_means_what_it_meant(file: Path) -> None:
    assert meaning(reduce_all(LedgerSnapshot(), records(file))) == means(file)


@pytest.mark.parametrize("file", TOPICS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_compacted_topic_means_the_same(file: Path) -> None:
    """Kafka keeps the last record of each key, in the order of the log."""
    last = {each.key: each for each in records(file)}
    kept = sorted(last.values(), key=lambda each: each.offset)
    compacted, whole = meaning(reduce_all(LedgerSnapshot(), kept)), means(file)
    assert sorted(each["id"] for each in compacted.pop("applies")) == sorted(
        each["id"] for each in whole.pop("applies")
    )
    assert compacted == whole


@pytest.mark.parametrize("file", CONFIG_KEYS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_recorded_config_key_means_what_it_meant(file: Path) -> None:
    found = [entry_meaning(each["connector"], each[LEDGER_KEY]) for each in lines(file)]
    assert found == means(file)


@pytest.mark.parametrize("file", TOPICS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_fields_of_newer_versions_are_ignored(file: Path) -> None:
    newer = [
        LogRecord(r.topic, 0, r.offset, 0, r.key, r.value and b'{"newer":{"a":1},' + r.value[1:])
        for r in records(file)
    ]
    assert meaning(reduce_all(LedgerSnapshot(), newer)) == means(file)


@pytest.mark.parametrize("file", CONFIG_KEYS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_fields_of_newer_versions_in_a_config_are_ignored(file: Path) -> None:
    found = [
        entry_meaning(each["connector"], '{"newer":{"a":1},' + each[LEDGER_KEY][1:])
        for each in lines(file)
    ]
    assert found == means(file)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_newer_format_of_a_record_is_refused(kind: bytes) -> None:
    """To pass over an ownership or a pin would mean to apply it again."""
    record = next(
        each
        for file in TOPICS
        for each in records(file)
        if each.value and each.key and each.key.startswith(kind + b"/")
    )
    assert record.value is not None and record.value.startswith(b'{"v":1,')
    newer = LogRecord("ledger", 0, 3, 0, record.key, b'{"v":99,' + record.value[7:])
    with pytest.raises(LedgerUnreadable) as caught:
        found = reduce_all(LedgerSnapshot(), [newer])
        for apply_id in {*found.raw_steps, *found.raw_snapshots}:
            assert not (found.steps(apply_id), found.snapshots(apply_id))
    (problem,) = caught.value.diagnostics
    assert "its format is 99" in problem.what
    assert problem.hint == "use a version of connect at least as new as the one that wrote it"


def test_a_newer_kind_of_record_is_refused() -> None:
    newer = LogRecord("ledger", 0, 3, 0, b"quota/a", b'{"v":1}')
    with pytest.raises(LedgerUnreadable) as caught:
        reduce_all(LedgerSnapshot(), [newer])
    (problem,) = caught.value.diagnostics
    assert "quota/a" in problem.what and problem.where == "ledger-0, offset 3"
    assert "at least as new" in problem.hint


def test_what_a_newer_version_recorded_and_forgot_again_is_ignored() -> None:
    newer = LogRecord("ledger", 0, 3, 0, b"quota/a", None)
    assert reduce_all(LedgerSnapshot(), [newer]) == LedgerSnapshot()


def test_a_newer_config_key_is_refused() -> None:
    each = lines(CONFIG_KEYS[0])[0]
    text = each[LEDGER_KEY].replace('"v":1}', '"v":99}')
    assert text != each[LEDGER_KEY]
    with pytest.raises(LedgerUnreadable) as caught:
        load_entry(each["connector"], text)
    (problem,) = caught.value.diagnostics
    assert "use a newer connect" in problem.hint
