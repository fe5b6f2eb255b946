"""Creates, queries and closes the config providers of one worker in one process.

Each is created when the first reference names it, so a task without references creates none.
Apache's are found by class name, also without package and without `ConfigProvider`; third parties
register under the entry point group `connect.config_providers`. A worker's properties never import
a module that is not registered. Any other class is looked for on plugin.path.
"""

from __future__ import annotations

import hmac
import json
import logging
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.metadata import entry_points
from typing import Any, Final

from connect_runtime.api import ConfigData, ConfigError, ConfigProvider
from connect_runtime.config_providers.built_in import BUILT_IN
from connect_runtime.config_providers.java_providers import JavaConfigProvider
from connect_runtime.config_providers.references import (
    PROVIDERS,
    PROVIDERS_OF_JVM,
    DeclaredProvider,
    Reference,
    aliases,
    declared_providers,
    references,
    reverse,
    substitute,
)
from connect_runtime.engine.plugin_path import has_java_plugins
from connect_runtime.plugins.definitions import password_keys
from connect_specs.diagnostics import Diagnostic
from connect_specs.secrets import SHORTEST, Redactor, secrets_in

_log = logging.getLogger(__name__)

RELOAD: Final = "config.action.reload"
GROUP: Final = "connect.config_providers"
_SUFFIX: Final = "ConfigProvider"
# A provider whose values are valid for 0 ms must not make a connector restart endlessly
SHORTEST_RELOAD_S: Final = 1.0
# Thrown by third-party code
_THROWN: Final = (Exception, SystemExit)
_CLOSED: Final = ConfigError("config providers are closed: this process is ending")


@dataclass(frozen=True, slots=True)
class UnresolvedReference:
    """The reason that a reference in the value of `key` cannot be resolved here."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """A config with its references resolved, for the process that uses it: neither logs, launches,
    statuses nor topics hold any of it.

    `provided` holds the provided values, by reference as written. `ttl_ms`: how long the first
    value to expire is valid.
    """

    raw: Mapping[str, str] = field(repr=False)
    config: Mapping[str, str] = field(repr=False)
    provided: Mapping[str, str] = field(repr=False)
    ttl_ms: int | None = None
    problems: tuple[UnresolvedReference, ...] = ()

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
        by_value = {
            secret: text for text, secret in self.provided.items() if len(secret) >= SHORTEST
        }
        longest_first = sorted(by_value, key=len, reverse=True)
        if not longest_first:
            return value
        pattern = re.compile("|".join(map(re.escape, longest_first)))
        concealed = pattern.sub(lambda match: by_value[match[0]], value)
        # the text around it may turn it into another reference
        resolved = substitute(concealed, lambda reference: self.provided.get(reference.text))
        return concealed if resolved == value else value

    @property
    def reload_in_s(self) -> float | None:
        """Returns in how many seconds the connector must restart because a value expires; None:
        never. `config.action.reload=none` keeps values after they expire."""
        action = self.config.get(RELOAD, "restart").strip().lower()
        if self.ttl_ms is None or action == "none":
            return None
        return max(self.ttl_ms / 1000, SHORTEST_RELOAD_S)

    def fingerprint(self, salt: bytes) -> str:
        """Returns a fingerprint by which configs that resolve equally are equal, without the
        values: a keyed hash, valid only while `salt` is kept in memory."""
        text = json.dumps(dict(self.config), sort_keys=True)
        return hmac.digest(salt, text.encode(), "sha256").hex()


class ConfigProviders:
    """Resolves references, from any thread, with the providers that `worker` declares: worker
    properties with references unresolved."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._properties = dict(worker)
        self._declared = {provider.alias: provider for provider in declared_providers(worker)}
        self._created: dict[str, ConfigProvider | ConfigError] = {}
        # one for each: a provider that hangs while it is configured blocks no other
        self._locks = {alias: threading.Lock() for alias in self._declared}
        self._closed = threading.Event()
        # the values that providers were configured with and may quote in their errors
        self._secrets: list[str] = []

    @cached_property
    def worker(self) -> Resolved:
        """Returns the worker's own properties, with their problems."""
        return self.look_up(self._properties)

    def problems(self) -> tuple[Diagnostic, ...]:
        """Returns the problems of providers that cannot be used in this process; creates all of
        them."""
        return tuple(
            Diagnostic("worker.invalid", str(provider), declared.class_key)
            for declared in self._declared.values()
            if isinstance(provider := self._provider(declared.alias), ConfigError)
        )

    def close(self) -> None:
        """Closes all providers; none can be used any more."""
        self._closed.set()
        for alias, provider in list(self._created.items()):
            self._created[alias] = _CLOSED
            self._close(alias, provider)

    def resolve(self, config: Mapping[str, str]) -> Resolved:
        """Returns the config with its references resolved. References to undeclared providers stay
        unchanged, as in Apache.

        Raises ConfigError if a declared provider has no value for a reference. Apache passes its
        text on, which a task would then use as the value, such as a password.
        """
        resolved = self.look_up(config)
        resolved.check()
        return resolved

    def for_jvm(self, worker: Mapping[str, str]) -> Resolved:
        """Returns worker properties for a JVM, with the references resolved for which it has no
        provider. Raises ConfigError as `resolve`."""
        of_jvm = aliases({PROVIDERS: worker.get(PROVIDERS_OF_JVM, "")})
        resolved = self._look_up(worker, self._declared.keys() - set(of_jvm))
        resolved.check()
        return resolved

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        """Resolves like `resolve`, but returns problems; a reference without a value stays
        unchanged."""
        return self._look_up(config, self._declared.keys())

    def _look_up(self, config: Mapping[str, str], used: Collection[str]) -> Resolved:
        by_key = {
            key: [r for r in references(value) if r.provider in used]
            for key, value in config.items()
        }
        answers = self._values([r for in_value in by_key.values() for r in in_value])
        provided: dict[str, str] = {}
        problems: list[UnresolvedReference] = []
        for key, in_value in by_key.items():
            for reference in dict.fromkeys(in_value):
                answer = _answer(answers, reference)
                if isinstance(answer, str):
                    provided[reference.text] = answer
                else:
                    text = f"The reference {reference.text} in {key} cannot be resolved: {answer}."
                    problems.append(UnresolvedReference(key, text))
        ttls = (answer.ttl_ms for answer in answers.values() if isinstance(answer, ConfigData))
        return Resolved(
            raw=dict(config),
            config={
                key: substitute(value, lambda reference: provided.get(reference.text))
                for key, value in config.items()
            },
            provided=provided,
            ttl_ms=min((ttl for ttl in ttls if ttl is not None and ttl >= 0), default=None),
            problems=tuple(problems),
        )

    def redactor(self, *configs: Resolved) -> Redactor:
        """Returns a redactor for texts about these configs: of provided values, and the configs'
        own secrets, by their connectors' definitions, too, and the worker's."""
        passwords = [*(password_keys(resolved.config) for resolved in configs), frozenset[str]()]
        texts: list[str] = []
        for resolved, keys in zip((*configs, self.worker), passwords, strict=True):
            texts += (*resolved.provided.values(), *secrets_in(resolved.config, keys))
        return Redactor(texts)

    def _values(
        self, requested: Sequence[Reference]
    ) -> dict[tuple[str, str], ConfigData | ConfigError]:
        """Returns each provider's answer for each path, asked once for all keys there."""
        keys: dict[tuple[str, str], set[str]] = {}
        for reference in requested:
            keys.setdefault((reference.provider, reference.path), set()).add(reference.key)
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
            if alias not in self._created:
                self._created[alias] = self._create(self._declared[alias])
            if self._closed.is_set():
                # closed by a thread that did not see this provider
                self._close(alias, self._created[alias])
                return _CLOSED
            return self._created[alias]

    def _close(self, alias: str, provider: ConfigProvider | ConfigError) -> None:
        try:
            if isinstance(provider, ConfigProvider):
                provider.close()
        except _THROWN as error:
            _log.warning("Config provider %s cannot be closed: %s", alias, self._redacted(error))

    def _create(self, declared: DeclaredProvider) -> ConfigProvider | ConfigError:
        # its own secrets may come from a provider that is declared before it
        aliases = list(self._declared)
        later = set(aliases[aliases.index(declared.alias) :])
        used = {r.provider for value in declared.params.values() for r in references(value)}
        if used & later:
            return ConfigError(f"its params refer to {min(used & later)}, not declared before it")
        try:
            params = self.resolve(declared.params)
            self._secrets += (*secrets_in(params.config), *params.provided.values())
            provider = _class(declared, self._properties)()
            provider.configure(params.config)
            return provider
        except _THROWN as error:
            return ConfigError(self._redacted(error))

    def _redacted(self, error: BaseException) -> str:
        text = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        return Redactor(self._secrets).redact(text)


def _class(declared: DeclaredProvider, worker: Mapping[str, str]) -> Callable[[], ConfigProvider]:
    if not declared.class_name:
        raise ConfigError.missing(declared.class_key)
    for name, built_in in BUILT_IN.items():
        simple = built_in.__name__
        if declared.class_name in (name, simple, simple.removesuffix(_SUFFIX)):
            return built_in
    names = list(BUILT_IN)
    for entry in entry_points(group=GROUP):
        names.append(entry.name)
        dotted = entry.value.replace(":", ".")
        if declared.class_name.replace(":", ".") in (entry.name, dotted):
            cls = entry.load()
            if isinstance(cls, type) and issubclass(cls, ConfigProvider):
                return cls
            raise ConfigError(f"{declared.class_name} is not a ConfigProvider")
    if has_java_plugins(worker):
        return partial(JavaConfigProvider, worker, declared.class_name)
    raise ConfigError.invalid(
        declared.class_key,
        declared.class_name,
        f"Class {declared.class_name} could not be found. Known are: {', '.join(names)}",
    )


def _answer(
    answers: Mapping[tuple[str, str], ConfigData | ConfigError], reference: Reference
) -> str | ConfigError:
    answer = answers[reference.provider, reference.path]
    if isinstance(answer, ConfigError):
        return answer
    value = answer.values.get(reference.key)
    if value is not None:
        return value
    at = f" at {reference.path}" if reference.path else ""
    return ConfigError(f"the config provider {reference.provider} has no {reference.key}{at}")


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
