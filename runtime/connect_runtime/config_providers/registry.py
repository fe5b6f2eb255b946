"""The config providers of one worker: made from its properties, asked for values, closed.

Apache's providers go by their class names, also without package and without `ConfigProvider`; third
parties register under the entry point group `connect.config_providers`. A worker's properties never
import a module that is not registered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, Final

from connect_runtime.api import ConfigData, ConfigError, ConfigProvider
from connect_runtime.config_providers.built_in import BUILT_IN
from connect_runtime.config_providers.declared import PROVIDERS, Declared, declared
from connect_runtime.config_providers.references import Reference, references, substitute
from connect_runtime.config_providers.resolved import Problem, Resolved
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.redaction import Redactor, secrets_in

GROUP: Final = "connect.config_providers"
_SUFFIX: Final = "ConfigProvider"

_log = logging.getLogger(__name__)


class ConfigProviders:
    """Resolves references, from any thread. Once closed, it resolves none."""

    def __init__(self, providers: Mapping[str, ConfigProvider], redactor: Redactor) -> None:
        self._providers = dict(providers)
        self._redactor = redactor

    @classmethod
    def of(cls, worker: Mapping[str, str]) -> ConfigProviders:
        """The providers that these worker properties declare, ready for use. Raises Invalid with
        all that is wrong."""
        found = cls({}, Redactor())
        problems: list[Diagnostic] = []
        secrets: list[str] = []
        for each in declared(worker):
            where = f"{PROVIDERS}.{each.alias}.class"
            try:
                # its secrets may come from a provider that is declared before it
                params = found.resolve(each.params)
                secrets += (*secrets_in(params.config), *params.given.values())
                found._redactor = Redactor(secrets)
                found._providers[each.alias] = _configured(each, params.config)
            except Exception as error:  # a third party's code
                what = found._redactor.redact(_words(error))
                problems.append(Diagnostic("worker.invalid", what, where))
        if problems:
            found.close()
            raise Invalid(*problems)
        return found

    def close(self) -> None:
        """Closes all providers; one that throws is logged."""
        while self._providers:
            alias, provider = self._providers.popitem()
            try:
                provider.close()
            except Exception as error:
                text = self._redactor.redact(_words(error))
                _log.warning("Config provider %s cannot be closed: %s", alias, text)

    def resolve(self, config: Mapping[str, str]) -> Resolved:
        """The config with the values of its references. References to providers that the worker
        does not declare stay as they are, as in Apache.

        Raises ConfigError for a reference that a declared provider has no value for. Apache passes
        its text on, which a task would then take for the value, such as a password.
        """
        found = self.look_up(config)
        if found.problems:
            raise ConfigError(" ".join(problem.text for problem in found.problems))
        return found

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        """The same with the problems told; what has no value stays as it is."""
        places = {
            key: [each for each in references(value) if each.provider in self._providers]
            for key, value in config.items()
        }
        answers = self._ask([each for found in places.values() for each in found])
        problems = [
            Problem(key, f"The reference {each.text} in {key} cannot be resolved: {answer}.")
            for key, found in places.items()
            for each in dict.fromkeys(found)
            if isinstance(answer := _answer(answers, each), Exception)
        ]
        given = {
            each.text: value
            for found in places.values()
            for each in found
            if isinstance(value := _answer(answers, each), str)
        }
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

    def _ask(self, wanted: list[Reference]) -> dict[tuple[str, str], ConfigData | Exception]:
        """What each provider says of each path, asked once for all keys there."""
        keys: dict[tuple[str, str], set[str]] = {}
        for each in wanted:
            keys.setdefault((each.provider, each.path), set()).add(each.key)
        answers: dict[tuple[str, str], ConfigData | Exception] = {}
        for (provider, path), names in keys.items():
            try:
                answers[provider, path] = _checked(
                    self._providers[provider].get(path, frozenset(names))
                )
            except Exception as error:  # a third party's code
                # without its cause: a traceback would quote texts that are not redacted
                answers[provider, path] = ConfigError(self._redactor.redact(_words(error)))
        return answers


def _answer(
    answers: Mapping[tuple[str, str], ConfigData | Exception], reference: Reference
) -> str | Exception:
    answer = answers[reference.provider, reference.path]
    if isinstance(answer, Exception):
        return answer
    found = answer.values.get(reference.key)
    if found is not None:
        return found
    at = f" at {reference.path}" if reference.path else ""
    return ConfigError(f"the config provider {reference.provider} has no {reference.key}{at}")


def _shortest_ttl(answers: Iterable[ConfigData | Exception]) -> int | None:
    found = (answer.ttl_ms for answer in answers if isinstance(answer, ConfigData))
    return min((ttl for ttl in found if ttl is not None and ttl >= 0), default=None)


def _checked(answer: Any) -> ConfigData:
    """The answer of a third party's code, if it is one. Its values are not told."""
    if not isinstance(answer, ConfigData):
        raise ConfigError(f"the config provider answered with {type(answer).__name__}")
    if not all(isinstance(value, str) for value in answer.values.values()):
        raise ConfigError("the config provider answered with a value that is no text")
    if not (answer.ttl_ms is None or type(answer.ttl_ms) is int):
        raise ConfigError("the config provider answered with a time to live that is no integer")
    return answer


def _configured(each: Declared, params: Mapping[str, str]) -> ConfigProvider:
    provider = _class(each)()
    provider.configure(params)
    return provider


def _class(each: Declared) -> Callable[[], ConfigProvider]:
    for name, built_in in BUILT_IN.items():
        simple = built_in.__name__
        if each.class_name in (name, simple, simple.removesuffix(_SUFFIX)):
            return built_in
    known = list(BUILT_IN)
    for entry in entry_points(group=GROUP):
        known.append(entry.name)
        dotted = entry.value.replace(":", ".")
        if each.class_name.replace(":", ".") in (entry.name, dotted):
            found = entry.load()
            if isinstance(found, type) and issubclass(found, ConfigProvider):
                return found
            raise ConfigError(f"{each.class_name} is not a ConfigProvider")
    raise ConfigError.invalid(
        f"{PROVIDERS}.{each.alias}.class",
        each.class_name,
        f"Class {each.class_name} could not be found. Known are: {', '.join(known)}",
    )


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
