"""Rules about config keys: the keys, the connectors, and the consequence and effects of a change.

An effect is a sentence about the data. `RuleContext` holds the facts that rules read: a connector's
configs and the cluster around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

from connect_reconciler.model.live import Kind, Live, LiveConnector, TopicLogs
from connect_reconciler.plan.diff import ConnectorDiff
from connect_specs.desired import Consequence
from connect_specs.plugin_definitions import CLASS_KEY


@dataclass(frozen=True, slots=True)
class RuleContext:
    """One connector's previous and next config, and the cluster around it.

    Secrets are masked, and `hidden` holds their keys: no effect can reveal one. Classes have their
    full names. `previous_name` is
    the owner of `previous`: another connector if this one is renamed, and gets that one's offsets.
    """

    name: str
    previous_name: str
    kind: Kind
    previous_kind: Kind
    previous: Mapping[str, str]
    config: Mapping[str, str]
    hidden: frozenset[str]
    live: Live
    worker: Mapping[str, str]

    @classmethod
    def of(
        cls,
        diff: ConnectorDiff,
        live: Live,
        worker: Mapping[str, str],
        renamed: LiveConnector | None = None,
    ) -> RuleContext:
        """Returns the context of one connector's diff; `renamed` is the connector that goes on in
        it."""
        connector = renamed or diff.live
        stored, texts = connector.config if connector else {}, diff.written or {}
        redacted, classes = diff.redactor.shown(texts), live.classes
        return cls(
            diff.name,
            connector.name if connector else diff.name,
            diff.kind,
            connector.kind if connector else "unknown",
            _with_full_class(diff.redactor.shown(stored), classes),
            _with_full_class(redacted, classes),
            frozenset(key for key, text in texts.items() if redacted[key] != text),
            live,
            worker,
        )

    @property
    def logs(self) -> TopicLogs:
        """Returns the logs on the Kafka cluster that the connector uses."""
        return self.live.logs_of(self.name)

    @property
    def renamed(self) -> bool:
        """Returns whether another connector's offsets are carried to this one."""
        return self.previous_name != self.name


def _with_full_class(config: Mapping[str, str], classes: Mapping[str, str]) -> Mapping[str, str]:
    """Returns a config whose class has its full name, as rules know it."""
    name = config.get(CLASS_KEY, "")
    return {**config, CLASS_KEY: classes[name]} if name in classes else config


# One effect, several, or None if the rule does not hold after all
Explain: TypeAlias = Callable[[RuleContext], str | tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for the keys that match one of the globs in `keys`, separated by spaces.

    `effect` can be a map by the key's next value, where `default` stands in for an omitted one; the
    rule does not hold for values that are not in it. `classes` are globs for connector.class.
    Without an effect, the consequence is all there is.
    """

    keys: str
    effect: str | tuple[str, ...] | Mapping[str, str] | Explain = ()
    consequence: Consequence = "restart"
    kind: Kind | None = None
    classes: str = "*"
    default: str = ""

    def covers(self, key: str, context: RuleContext) -> bool:
        """Returns whether the rule is about this key of this connector."""
        name = context.config.get(CLASS_KEY, "")
        return (
            self.kind in (None, context.kind)
            and any(fnmatchcase(key, glob) for glob in self.keys.split())
            and any(fnmatchcase(name, glob) for glob in self.classes.split())
        )

    @property
    def reads_values(self) -> bool:
        """Returns whether its effect depends on values of keys."""
        return callable(self.effect) or isinstance(self.effect, Mapping)

    def effects(self, context: RuleContext) -> tuple[str, ...] | None:
        """Returns the effects of the change, or None if the rule does not hold."""
        effect = self.effect(context) if callable(self.effect) else self.effect
        if isinstance(effect, Mapping):
            effect = effect.get(context.config.get(self.keys, self.default).strip().lower())
        return (effect,) if isinstance(effect, str) else effect
