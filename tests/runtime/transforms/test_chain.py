"""Chains: the order of transformations, predicates, options, and plugins of users."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from connect_runtime.api import (
    ConfigDef,
    ConfigError,
    ConnectorError,
    ConnectRecord,
    DataError,
    Predicate,
    SourceRecord,
    Transformation,
)
from connect_runtime.errors.handler import ErrorHandler, ErrorPolicy, RecordSkipped
from connect_runtime.plugins import modules, registry
from connect_runtime.transforms.chain import Filter, Step, chain_of

JAVA = "org.apache.kafka.connect.transforms"


class Configured:
    """What both kinds of plugins need; `closed` counts."""

    closed = 0

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)

    def close(self) -> None:
        type(self).closed += 1


class Append(Configured, Transformation):
    """Appends the option `text`."""

    def apply(self, record: Any) -> Any:
        return replace(record, value=record.value + self.options["text"])


class Drop(Configured, Transformation):
    """Drops each record."""

    def apply(self, record: Any) -> Any:
        return None


class Fail(Configured, Transformation):
    """Refuses each record."""

    def apply(self, record: Any) -> Any:
        raise DataError("refused")


class Starts(Configured, Predicate):
    """True for values that start with the option `with`."""

    def test(self, record: ConnectRecord) -> bool:
        return str(record.value).startswith(self.options["with"])


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(modules, "_allowed", modules._allowed)
    for cls in (Append, Drop, Fail, Starts):
        monkeypatch.setattr(cls, "closed", 0)
    found = SimpleNamespace(Append=Append, Drop=Drop, Fail=Fail, Starts=Starts)
    monkeypatch.setitem(sys.modules, "acme_chain", found)  # type: ignore[arg-type]
    modules.allow_modules({modules.PLUGIN_MODULES: "acme_chain"})
    yield
    registry.plugin.cache_clear()


def config(names: str, **more: str) -> dict[str, str]:
    return {"transforms": names} | {k.replace("__", "."): v for k, v in more.items()}


def applied(config: Mapping[str, str], value: str, policy: ErrorPolicy | None = None) -> Any:
    record = SourceRecord({}, None, "t", value)
    changed = chain_of(config).apply(record, record, ErrorHandler(policy))
    return None if changed is None else changed.value


AB = config(
    "a , b",
    transforms__a__type="acme_chain:Append",
    transforms__a__text="1",
    transforms__b__type="acme_chain.Append",
    transforms__b__text="2",
)
PREDICATES = {
    "predicates": "p",
    "predicates.p.type": "acme_chain:Starts",
    "predicates.p.with": "x",
}


def test_without_transformations_there_is_no_chain() -> None:
    assert not chain_of({"transforms": " "})
    assert applied({}, "v") == "v"


def test_transformations_run_in_order_each_with_its_options() -> None:
    assert applied(AB, "v") == "v12"
    assert applied(AB | {"transforms": "b,a"}, "v") == "v21"


@pytest.mark.parametrize(
    ("negate", "value", "changed"),
    [
        ("", "x", "x12"), ("", "v", "v2"), ("true", "x", "x2"), ("true", "v", "v12"),
        ("false", "x", "x12"),
    ],
)  # fmt: skip
def test_a_predicate_chooses_records(negate: str, value: str, changed: str) -> None:
    more = {"transforms.a.predicate": "p"} | ({"transforms.a.negate": negate} if negate else {})

    assert applied(AB | PREDICATES | more, value) == changed


# --- the examples of Connect's manual, 8.2 ---


@pytest.mark.parametrize("line", ["foo", "bar", "hello world"])
def test_a_line_becomes_a_map_with_its_source(line: str) -> None:
    given = {
        "transforms": "MakeMap, InsertSource",
        "transforms.MakeMap.type": f"{JAVA}.HoistField$Value",
        "transforms.MakeMap.field": "line",
        "transforms.InsertSource.type": f"{JAVA}.InsertField$Value",
        "transforms.InsertSource.static.field": "data_source",
        "transforms.InsertSource.static.value": "test-file-source",
    }
    assert applied(given, line) == {"line": line, "data_source": "test-file-source"}


@pytest.mark.parametrize(
    ("topic", "expected"), [("foo", None), ("bar", {"other_field": 7}), ("another", 7)]
)
def test_one_topic_is_dropped_and_another_one_is_left_as_it_is(topic: str, expected: Any) -> None:
    given = {
        "transforms": "Filter,Extract",
        "transforms.Filter.type": f"{JAVA}.Filter",
        "transforms.Filter.predicate": "IsFoo",
        "transforms.Extract.type": f"{JAVA}.ExtractField$Key",
        "transforms.Extract.field": "other_field",
        "transforms.Extract.predicate": "IsBar",
        "transforms.Extract.negate": "true",
        "predicates": "IsFoo,IsBar",
        "predicates.IsFoo.type": f"{JAVA}.predicates.TopicNameMatches",
        "predicates.IsFoo.pattern": "foo",
        "predicates.IsBar.type": f"{JAVA}.predicates.TopicNameMatches",
        "predicates.IsBar.pattern": "bar",
    }
    record = SourceRecord({}, None, topic, "v", key={"other_field": 7})
    changed = chain_of(given).apply(record, record, ErrorHandler(None))
    assert (changed and changed.key) == expected


def test_after_a_drop_nothing_runs() -> None:
    dropped = config(
        "d,f", transforms__d__type="acme_chain:Drop", transforms__f__type="acme_chain:Fail"
    )

    assert applied(dropped, "v") is None


def test_an_error_is_one_of_its_stage_and_class() -> None:
    failing = config("f", transforms__f__type="acme_chain:Fail")
    with pytest.raises(ConnectorError, match="Tolerance exceeded in error handler") as raised:
        applied(failing, "v")
    assert str(raised.value.__cause__) == "refused"
    with pytest.raises(RecordSkipped):
        applied(failing, "v", ErrorPolicy(tolerates_all=True))


def test_close_reaches_all() -> None:
    chain_of(AB | PREDICATES | {"transforms.a.predicate": "p"}).close()

    assert (Append.closed, Starts.closed) == (2, 1)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"transforms": "c"}, 'Missing required configuration "transforms.c.type"'),
        ({"transforms.a.type": "Nope"}, "Class Nope could not be found"),
        ({"transforms.a.type": "acme_chain:Starts"}, "could not be found"),
        ({"transforms.a.predicate": "q"}, "Predicate 'q' of transforms.a.predicate is not listed"),
    ],
)
def test_configs_that_give_no_chain(more: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        chain_of(AB | more)


@pytest.mark.parametrize(("answer", "left"), [(None, 1), (0, 1), ("a match", 0)])
def test_a_predicate_may_answer_with_what_counts_as_true(answer: Any, left: int) -> None:
    class Loose(Configured, Predicate):
        def test(self, record: Any) -> bool:
            return answer  # type: ignore[no-any-return]

    step = Step(Filter(), "Filter", Loose())
    record = SourceRecord({"p": 1}, {"n": 1}, "t", "v")
    assert [step.apply(record)].count(record) == left
