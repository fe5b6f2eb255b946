"""Holds a config with its references resolved, for the process that uses it. Pure.

None of it may leave the process: neither logs, launches, statuses nor topics hold resolved values.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_runtime.api import ConfigError
from connect_runtime.config_providers.references import reverse, substitute
from connect_specs.redaction import SHORTEST

RELOAD: Final = "config.action.reload"
# A provider whose values are valid for 0 ms must not make a connector restart endlessly
_SHORTEST_RELOAD_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the reference in the value of `key` cannot be resolved here."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """`config` is resolved. `given` holds the provided values, by reference as written. `ttl_ms`:
    how long the first value to expire is valid."""

    raw: Mapping[str, str] = field(repr=False)
    config: Mapping[str, str] = field(repr=False)
    given: Mapping[str, str] = field(repr=False)
    ttl_ms: int | None = None
    problems: tuple[Problem, ...] = ()

    def check(self) -> None:
        """Raises ConfigError if a reference could not be resolved."""
        if self.problems:
            raise ConfigError(" ".join(problem.text for problem in self.problems))

    def task_config(self, task: Mapping[str, str]) -> dict[str, str]:
        """Returns a task's config for the config topic, from the connector's answer.

        A key whose raw value holds a reference gets that raw value (connect-facts 1.6). A provided
        value that the connector put anywhere else becomes its reference again, which Apache
        publishes in plain text. Both resolve to the value that the connector got.
        """
        return {
            key: value if value == self.raw.get(key) else self._concealed(value)
            for key, value in reverse(self.raw, task).items()
        }

    def _concealed(self, value: str) -> str:
        by_value = {given: text for text, given in self.given.items() if len(given) >= SHORTEST}
        longest_first = sorted(by_value, key=len, reverse=True)
        if not longest_first:
            return value
        pattern = re.compile("|".join(map(re.escape, longest_first)))
        found = pattern.sub(lambda match: by_value[match[0]], value)
        # the text around it may turn it into another reference
        same = substitute(found, lambda reference: self.given.get(reference.text)) == value
        return found if same else value

    @property
    def reload_in_s(self) -> float | None:
        """Returns in how many seconds the connector must restart because a value expires; None:
        never. `config.action.reload=none` keeps values after they expire."""
        action = self.config.get(RELOAD, "restart").strip().lower()
        if self.ttl_ms is None or action == "none":
            return None
        return max(self.ttl_ms / 1000, _SHORTEST_RELOAD_S)

    def fingerprint(self, salt: bytes) -> str:
        """Returns a fingerprint that shows whether two configs resolve equally, without the values:
        a keyed hash, valid only while `salt` is kept in memory."""
        text = json.dumps(dict(self.config), sort_keys=True)
        return hmac.digest(salt, text.encode(), "sha256").hex()
