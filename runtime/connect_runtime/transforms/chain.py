"""Runs a connector's chain of transformations, each with its predicate, if it has one.

`transforms` lists aliases in order; `transforms.<alias>.type` names the class, and
`transforms.<alias>.predicate` an alias of `predicates` (KIP-585). The manual's "Transformations".
Connect's predicates are here, and Filter, which is of use only with one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from connect_runtime.api import (
    AllOf,
    ConfigError,
    Headers,
    NonEmptyString,
    Predicate,
    Transformation,
    ValidRegex,
)
from connect_runtime.api.record_plugins import ConnectRecord, R
from connect_runtime.errors.handler import ErrorHandler, Failure, Stage
from connect_runtime.java import regex as java_regex
from connect_runtime.java.scalars import java_list
from connect_runtime.plugins import registry
from connect_runtime.transforms.transformation import (
    ColumnPredicate,
    Columns,
    ColumnTransformation,
    options,
)


class Filter(ColumnTransformation):
    """Drops every record that it gets. Meant to be used with a predicate."""

    def apply(self, record: R) -> R | None:
        """Drops the record."""
        return None

    def apply_columns(self, columns: Columns) -> None:
        """Drops all records."""
        columns.keep([False] * len(columns))


class HasHeaderKey(ColumnPredicate):
    """True of records with at least one header of the name."""

    OPTIONS = options("HasHeaderKey", {"name": NonEmptyString()})

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets the name."""
        self._name: str = options["name"]

    def test(self, record: ConnectRecord) -> bool:
        """Looks for the header."""
        return self._is_in(record.headers)

    def test_columns(self, columns: Columns) -> Sequence[bool]:
        """Looks for the header."""
        return list(map(self._is_in, columns["headers"]))

    def _is_in(self, headers: Headers) -> bool:
        return any(header.key == self._name for header in headers)


class RecordIsTombstone(ColumnPredicate):
    """True of records whose value is null."""

    def test(self, record: ConnectRecord) -> bool:
        """Looks at the value."""
        return record.value is None

    def test_columns(self, columns: Columns) -> Sequence[bool]:
        """Looks at the values."""
        return [value is None for value in columns["values"]]


class TopicNameMatches(ColumnPredicate):
    """True of records whose topic matches the expression from beginning to end."""

    OPTIONS = options("TopicNameMatches", {"pattern": AllOf.of(NonEmptyString(), ValidRegex())})

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Compiles the expression."""
        self._pattern = java_regex.compile(options["pattern"])
        self._by_topic: dict[str, bool] = {}

    def test(self, record: ConnectRecord) -> bool:
        """Matches the topic, once for each topic."""
        return self._matches(record.topic)

    def test_columns(self, columns: Columns) -> Sequence[bool]:
        """Matches the topics."""
        return list(map(self._matches, columns["topics"]))

    def _matches(self, topic: str) -> bool:
        result = self._by_topic.get(topic)
        if result is None:
            result = self._by_topic[topic] = self._pattern.fullmatch(topic) is not None
        return result


_OWN: Final = frozenset({"type", "predicate", "negate", "plugin.version"})


@dataclass(frozen=True, slots=True)
class Step:
    """One transformation, for the records that its predicate chooses: those for which it is true,
    or with `negate` those for which it is false."""

    transformation: Transformation
    class_name: str
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: R) -> R | None:
        """Returns the record as it is to be, or None to drop it."""
        if self.predicate is not None and bool(self.predicate.test(record)) is self.negate:
            return record
        return self.transformation.apply(record)

    @property
    def in_columns(self) -> bool:
        """Returns True if it can work on columns."""
        return isinstance(self.transformation, ColumnTransformation) and (
            self.predicate is None or isinstance(self.predicate, ColumnPredicate)
        )

    def apply_columns(self, columns: Columns) -> None:
        """Changes the chosen records. Raises what `apply` would raise for one of them."""
        assert isinstance(self.transformation, ColumnTransformation)
        if self.predicate is None:
            self.transformation.apply_columns(columns)
            return
        assert isinstance(self.predicate, ColumnPredicate)
        results = self.predicate.test_columns(columns)
        chosen = [result is not self.negate for result in results]
        if not any(chosen):
            return
        if all(chosen):
            self.transformation.apply_columns(columns)
        elif isinstance(self.transformation, Filter):
            columns.keep([not is_chosen for is_chosen in chosen])
        else:
            subset = columns.subset(chosen)
            self.transformation.apply_columns(subset)
            columns.put_back(chosen, subset)


class Chain:
    """The transformations of one task, in order. False if there are none. `in_columns`: there are
    some, and all of them can work on columns."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps
        self.in_columns = bool(steps) and all(step.in_columns for step in steps)

    def __bool__(self) -> bool:
        return bool(self._steps)

    def apply(
        self,
        record: R,
        source: Any,
        errors: ErrorHandler,
        before_error: Callable[[], None] = lambda: None,
    ) -> R | None:
        """Returns the record as it is to be, or None to drop it; `errors` is told of `source`,
        after `before_error` was called. Raises RecordSkipped, RetriesEnded and ConnectorError,
        as `errors` does."""
        for step in self._steps:
            try:
                changed = step.apply(record)
            except Exception as error:
                before_error()
                failure = Failure(Stage.TRANSFORMATION, step.class_name, error, source)
                changed = errors.recover(failure, partial(step.apply, record))
            if changed is None:
                return None
            record = changed
        return record

    def apply_columns(self, columns: Columns) -> None:
        """Transforms all records at once, if `in_columns`. Raises something if one of them is an
        error: then `columns` is of no use, and the records are still as they were."""
        for step in self._steps:
            step.apply_columns(columns)

    def close(self) -> None:
        """Closes all transformations and predicates, then raises the first of their errors."""
        failures: list[Exception] = []
        for step in self._steps:
            for plugin in filter(None, (step.transformation, step.predicate)):
                try:
                    plugin.close()
                except Exception as error:
                    failures.append(error)
        if failures:
            raise failures[0]


def chain_of(config: Mapping[str, str]) -> Chain:
    """Returns the chain of a connector's config, configured. Raises ConfigError."""
    predicates = set(_aliases(config, "predicates"))
    return Chain(
        tuple(_step(config, alias, predicates) for alias in _aliases(config, "transforms"))
    )


def _step(config: Mapping[str, str], alias: str, predicates: set[str]) -> Step:
    prefix = f"transforms.{alias}."
    plugin = registry.plugin("transformation", f"{prefix}type", _type(config, prefix))
    chosen = config.get(f"{prefix}predicate", "").strip()
    if chosen and chosen not in predicates:
        raise ConfigError(f"Predicate '{chosen}' of {prefix}predicate is not listed in predicates")
    transformation: Transformation = plugin.cls()
    # `predicate` and `negate` hide options of these names, as in Connect
    transformation.configure(_options(config, prefix, _OWN))
    return Step(
        transformation,
        plugin.class_name,
        _predicate(config, chosen) if chosen else None,
        config.get(f"{prefix}negate", "").strip().lower() == "true",
    )


def _predicate(config: Mapping[str, str], alias: str) -> Predicate:
    prefix = f"predicates.{alias}."
    predicate: Predicate = registry.plugin(
        "predicate", f"{prefix}type", _type(config, prefix)
    ).cls()
    predicate.configure(_options(config, prefix, frozenset({"type", "plugin.version"})))
    return predicate


def _type(config: Mapping[str, str], prefix: str) -> str:
    name = config.get(f"{prefix}type")
    if not name:
        raise ConfigError.missing(f"{prefix}type")
    return name


def _options(config: Mapping[str, str], prefix: str, without: frozenset[str]) -> dict[str, str]:
    options = {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
    return {key: value for key, value in options.items() if key not in without}


def _aliases(config: Mapping[str, str], key: str) -> list[str]:
    return list(dict.fromkeys(java_list(config.get(key, ""))))
