"""Creates, queries and closes the config providers of one worker in one process.

Each is created when the first reference names it, so a task without references creates none.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from connect_runtime.api import ConfigData, ConfigError, ConfigProvider
from connect_runtime.config_providers.declared import Declared, declared
from connect_runtime.config_providers.making import make
from connect_runtime.config_providers.references import Reference, references, substitute
from connect_runtime.config_providers.resolved import Problem, Resolved
from connect_runtime.plugins.passwords import password_keys
from connect_specs.diagnostics import Diagnostic
from connect_specs.redaction import Redactor, secrets_in

_log = logging.getLogger(__name__)

# Thrown by third-party code
_THROWN: Final = (Exception, SystemExit)
_CLOSED: Final = ConfigError("config providers are closed: this process is ending")


class ConfigProviders:
    """Resolves references, from any thread, with the providers that `worker` declares: worker
    properties with references unresolved."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._properties = dict(worker)
        self._declared = {each.alias: each for each in declared(worker)}
        self._made: dict[str, ConfigProvider | ConfigError] = {}
        # one for each: a provider that hangs while it is configured blocks no other
        self._locks = {alias: threading.Lock() for alias in self._declared}
        self._closed = threading.Event()
        # what providers were configured with and may quote in their errors
        self._secrets: list[str] = []

    @cached_property
    def worker(self) -> Resolved:
        """Returns the worker's own properties, with their problems."""
        return self.look_up(self._properties)

    def problems(self) -> tuple[Diagnostic, ...]:
        """Returns the problems of providers that cannot be used in this process; creates all of
        them."""
        return tuple(
            Diagnostic("worker.invalid", str(made), each.class_key)
            for each in self._declared.values()
            if isinstance(made := self._provider(each.alias), ConfigError)
        )

    def close(self) -> None:
        """Closes all providers; none can be used any more."""
        self._closed.set()
        for alias, provider in list(self._made.items()):
            self._made[alias] = _CLOSED
            self._close(alias, provider)

    def resolve(self, config: Mapping[str, str]) -> Resolved:
        """Returns the config with its references resolved. References to undeclared providers stay
        unchanged, as in Apache.

        Raises ConfigError if a declared provider has no value for a reference. Apache passes its
        text on, which a task would then use as the value, such as a password.
        """
        found = self.look_up(config)
        found.check()
        return found

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        """Resolves like `resolve`, but returns problems; a reference without a value stays
        unchanged."""
        places = {
            key: [each for each in references(value) if each.provider in self._declared]
            for key, value in config.items()
        }
        answers = self._values([each for found in places.values() for each in found])
        given: dict[str, str] = {}
        problems: list[Problem] = []
        for key, found in places.items():
            for each in dict.fromkeys(found):
                answer = _answer(answers, each)
                if isinstance(answer, str):
                    given[each.text] = answer
                else:
                    what = f"The reference {each.text} in {key} cannot be resolved: {answer}."
                    problems.append(Problem(key, what))
        return Resolved(
            raw=dict(config),
            config={
                key: substitute(value, lambda each: given.get(each.text))
                for key, value in config.items()
            },
            given=given,
            ttl_ms=_shortest_ttl(answers.values()),
            problems=tuple(problems),
        )

    def redactor(self, *configs: Resolved) -> Redactor:
        """Returns a redactor for texts about these configs: of provided values, and the configs'
        own secrets, by their connectors' definitions, too, and the worker's."""
        found = [(each, password_keys(each.config)) for each in configs]
        found.append((self.worker, frozenset()))
        given = (value for each, _ in found for value in each.given.values())
        secrets = (text for each, keys in found for text in secrets_in(each.config, keys))
        return Redactor((*given, *secrets))

    def _values(
        self, wanted: Sequence[Reference]
    ) -> dict[tuple[str, str], ConfigData | ConfigError]:
        """Returns each provider's answer for each path, asked once for all keys there."""
        keys: dict[tuple[str, str], set[str]] = {}
        for each in wanted:
            keys.setdefault((each.provider, each.path), set()).add(each.key)
        return {
            (alias, path): self._query(alias, path, frozenset(names))
            for (alias, path), names in keys.items()
        }

    def _query(self, alias: str, path: str, keys: frozenset[str]) -> ConfigData | ConfigError:
        provider = self._provider(alias)
        if isinstance(provider, ConfigError):
            return ConfigError(f"the config provider {alias} cannot be used here: {provider}")
        try:
            return _checked(provider.get(path, keys))
        except _THROWN as error:
            # without its cause: a traceback would quote texts that are not redacted
            return ConfigError(self._redacted(error))

    def _provider(self, alias: str) -> ConfigProvider | ConfigError:
        if self._closed.is_set():
            return _CLOSED
        with self._locks[alias]:
            if alias not in self._made:
                self._made[alias] = self._make(self._declared[alias])
            if self._closed.is_set():
                # closed meanwhile, by a thread that did not see this provider
                self._close(alias, self._made[alias])
                return _CLOSED
            return self._made[alias]

    def _close(self, alias: str, provider: ConfigProvider | ConfigError) -> None:
        try:
            if isinstance(provider, ConfigProvider):
                provider.close()
        except _THROWN as error:
            _log.warning("Config provider %s cannot be closed: %s", alias, self._redacted(error))

    def _make(self, each: Declared) -> ConfigProvider | ConfigError:
        # its own secrets may come from a provider that is declared before it
        before = list(self._declared)[: list(self._declared).index(each.alias)]
        later = self._declared.keys() - before
        used = {found.provider for value in each.params.values() for found in references(value)}
        if used & later:
            return ConfigError(f"its params refer to {min(used & later)}, not declared before it")
        try:
            params = self.resolve(each.params)
            self._secrets += (*secrets_in(params.config), *params.given.values())
            return make(each, params.config)
        except _THROWN as error:
            return ConfigError(self._redacted(error))

    def _redacted(self, error: BaseException) -> str:
        text = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        return Redactor(self._secrets).redact(text)


def _answer(
    answers: Mapping[tuple[str, str], ConfigData | ConfigError], reference: Reference
) -> str | ConfigError:
    answer = answers[reference.provider, reference.path]
    if isinstance(answer, ConfigError):
        return answer
    found = answer.values.get(reference.key)
    if found is not None:
        return found
    at = f" at {reference.path}" if reference.path else ""
    return ConfigError(f"the config provider {reference.provider} has no {reference.key}{at}")


def _shortest_ttl(answers: Iterable[ConfigData | ConfigError]) -> int | None:
    found = (answer.ttl_ms for answer in answers if isinstance(answer, ConfigData))
    return min((ttl for ttl in found if ttl is not None and ttl >= 0), default=None)


def _checked(answer: Any) -> ConfigData:
    """Returns third-party code's answer, if it is valid. Errors never show its values."""
    if not isinstance(answer, ConfigData):
        raise ConfigError(f"the config provider answered with {type(answer).__name__}")
    values = dict(answer.values)
    if not all(isinstance(value, str) for value in values.values()):
        raise ConfigError("the config provider answered with a value that is not text")
    if not (answer.ttl_ms is None or type(answer.ttl_ms) is int):
        raise ConfigError("the config provider answered with a time to live that is not an integer")
    return ConfigData(values, answer.ttl_ms)
