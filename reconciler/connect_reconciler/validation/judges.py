"""Verdicts on configs: of the cluster, of installed classes, and by definitions such as the lock's.

Only the cluster is asked over the network: several configs at once, for a limited time. A cluster
that does not answer is no failure: the plan is made without it, with a warning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from connect_reconciler.backend.plugins import (
    KeyProblem,
    RestPlugins,
    Validation,
    installed,
)
from connect_reconciler.backend.rest.refusals import is_unlisted, no_such_class
from connect_reconciler.model.live import Kind, kind_of
from connect_reconciler.validation.keys import wrong_values
from connect_runtime.herder.verbs import Refusal, RequestError
from connect_runtime.plugins.modules import PLUGIN_MODULES
from connect_runtime.plugins.sides import jvm_reason
from connect_runtime.settings.worker_config import WorkerConfig, from_project
from connect_runtime.validation.validate import check_common, validate
from connect_runtime.waiting import TakesTooLong
from connect_specs.desired import Project
from connect_specs.diagnostics import ConnectError, Diagnostic, Invalid, Unreachable, warning
from connect_specs.plain_text import listed
from connect_specs.plugin_definitions import CLASS_KEY, CONNECTORS, SINK, Definitions, keys_of

Config: TypeAlias = Mapping[str, str]

# For rules that need to know a Kafka; nothing connects to it
_NO_KAFKA: Final = "localhost:9092"

_AT_ONCE: Final = 8
_ALL_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class ClusterAnswers:
    """The cluster's answers by connector. `silences` has the reasons for configs that it did not
    judge."""

    validations: Mapping[str, Validation] = field(default_factory=dict)
    silences: Mapping[str, str] = field(default_factory=dict)

    def warnings(self) -> tuple[Diagnostic, ...]:
        """Returns one warning for each reason of a silence."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.silences.items():
            by_reason.setdefault(reason, []).append(name)
        return tuple(
            warning(
                "config.not-validated", f"not validated by the cluster: {listed(names)}", why=reason
            )
            for reason, names in sorted(by_reason.items())
        )


def ask_cluster(
    plugins: RestPlugins,
    configs: Mapping[str, Config],
    clock: Callable[[], float] = time.monotonic,
) -> ClusterAnswers:
    """Returns the cluster's validation of each config, by connector."""
    deadline = clock() + _ALL_S
    unreachable: list[str] = []

    def ask(config: Config) -> Validation | str:
        if unreachable:
            return unreachable[0]
        if clock() > deadline:
            return f"its validation did not end within {_ALL_S:.0f} s"
        try:
            return plugins.validate(config)
        except RequestError as error:
            return _refused(error, config)
        except ConnectError as error:
            first = error.diagnostics[0]
            reason = f"{first.what}: {first.why}" if first.why else first.what
            if isinstance(error, Unreachable):
                unreachable.append(reason)
            return reason
        except (KeyError, TypeError, ValueError):
            return "its answer is not one of Connect's"

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="validate") as pool:
        answers = dict(zip(configs, pool.map(ask, configs.values()), strict=True))
    return ClusterAnswers(
        {name: answer for name, answer in answers.items() if isinstance(answer, Validation)},
        {name: answer for name, answer in answers.items() if isinstance(answer, str)},
    )


class Judge:
    """Validates configs: by the cluster's `answers`, by the installed classes, which our runtime
    would run, else by definitions of keys, such as the lock's. Of unknown classes, only Connect's
    own keys are validated."""

    def __init__(self, project: Project, plugins: Definitions, answers: ClusterAnswers) -> None:
        self._answers = answers
        self._plugins = plugins
        self._group = project.group_id
        self._worker: WorkerConfig | None = None
        if project.uses_runtime:
            # `check_project` reports wrong properties
            with suppress(Invalid):
                self._worker = worker_of(project)
        # Classes whose validation hangs, with the error: each is waited for once
        self._hanging: dict[str, RequestError] = {}

    def verdict(self, name: str, config: Config) -> Validation:
        """Returns the problems of the config, as the first of these sees them that knows its
        class."""
        class_name = config[CLASS_KEY]
        if name in self._answers.validations:
            return self._answers.validations[name]
        if class_name in self._hanging:
            return _failed(class_name, self._hanging[class_name])
        if self._worker is not None and installed(class_name, CONNECTORS) is not None:
            return self._by_class(class_name, config, self._worker)
        is_sink = kind_by_class(config, self._plugins) == "sink"
        common = check_common(config, is_sink=is_sink, worker_group=self._group)
        keys = keys_of(config, self._plugins) or {}
        problems = (KeyProblem(key, error) for key, error in common)
        return Validation((*wrong_values(config, keys), *problems))

    def _by_class(self, class_name: str, config: Config, worker: WorkerConfig) -> Validation:
        try:
            infos = validate(config, worker)
        except RequestError as error:
            if isinstance(error.__cause__, TakesTooLong):
                self._hanging[class_name] = error
            return _failed(class_name, error)
        values = [info.value for info in infos.configs if info.value is not None]
        return Validation(
            tuple(
                KeyProblem(value.name, error, recommended=value.recommended)
                for value in values
                for error in value.errors
            ),
            jvm_reason=jvm_reason(config),
        )


def worker_of(project: Project) -> WorkerConfig:
    """Returns the worker of a project with our runtime, as far as it is known without Kafka. Raises
    Invalid for wrong properties in connect.yaml."""
    kafka = _NO_KAFKA if project.kafka is None else None
    return from_project(project, kafka, resolve=False)[0]


def kind_by_class(config: Config, plugins: Definitions) -> Kind:
    """Returns the kind of connector that the class is."""
    plugin = plugins.find(config.get(CLASS_KEY, ""), CONNECTORS)
    kinds: dict[str, Kind] = {}
    if plugin is not None:
        kinds[config[CLASS_KEY]] = "sink" if plugin.type == SINK else "source"
    return kind_of(config, None, kinds)


def _refused(error: RequestError, config: Config) -> Validation | str:
    if no_such_class(error):
        text = f"the cluster has no connector class {config[CLASS_KEY]}"
        return Validation((KeyProblem(CLASS_KEY, text),))
    if is_unlisted(error):
        text = f"the cluster's workers do not list the module of {config[CLASS_KEY]}"
        return Validation(
            (KeyProblem(CLASS_KEY, f"{text} in {PLUGIN_MODULES}; they read it when they start"),)
        )
    if error.refusal is Refusal.PLUGIN_FAILED:
        return _failed(config[CLASS_KEY], error)
    # Its text may hold the whole config
    return f"its validation ended with status {error.status}"


def _failed(class_name: str, error: RequestError) -> Validation:
    text, hint = error.message, ""
    if error.refusal is Refusal.PLUGIN_FAILED:
        text = f"{class_name} fails when its config is validated: {text}"
        hint = "correct the class: no worker can create the connector before"
    return Validation((KeyProblem(CLASS_KEY, text, hint=hint),))
