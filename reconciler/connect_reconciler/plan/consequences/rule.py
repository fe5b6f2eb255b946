"""A rule of a table: for which keys of which connectors, what follows, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

from connect_reconciler.plan.consequences.setting import Setting
from connect_reconciler.plan.live import Kind
from connect_specs.desired import Consequence

# The words, or None where the rule does not hold after all
Explain: TypeAlias = Callable[[Setting], str | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """Holds for keys that match one of the globs in `keys`, separated by spaces.

    `classes` are globs for the value of connector.class. Without words, the consequence alone says
    what there is to say.
    """

    keys: str
    consequence: Consequence
    says: str | Explain = ""
    kind: Kind | None = None
    classes: str = "*"

    def covers(self, key: str, setting: Setting) -> bool:
        """Whether the rule is about this key of this connector."""
        name = setting.new.get("connector.class", "")
        return (
            self.kind in (None, setting.kind)
            and any(fnmatchcase(key, glob) for glob in self.keys.split())
            and any(fnmatchcase(name, glob) for glob in self.classes.split())
        )

    def words(self, setting: Setting) -> str | None:
        """What the change does here, or None where the rule does not hold."""
        return self.says if isinstance(self.says, str) else self.says(setting)


def set_to(key: str, words: dict[str, str], default: str = "") -> Explain:
    """Words by the new value of `key`, where those of `default` stand for it left out."""

    def explain(setting: Setting) -> str | None:
        return words.get(setting.new.get(key, default).strip().lower())

    return explain
