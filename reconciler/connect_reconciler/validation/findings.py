"""Errors and warnings of configs that are to be written, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from connect_reconciler.backend.plugins import KeyProblem, Validation, installed, why_not_loaded
from connect_reconciler.backend.rest.refusals import class_not_found, follows_from_another
from connect_reconciler.model.secrets import ConfigRedactor, is_mask
from connect_reconciler.validation.judges import ClusterAnswers, Judge, kind_by_class
from connect_reconciler.validation.keys import (
    mistyped_options,
    sensitive_slips,
    slips,
    undefined_predicates,
    unknown_keys,
)
from connect_runtime.config_providers.references import holds_reference
from connect_runtime.plugins.modules import PLUGIN_MODULES, listed_modules, unlisted_module
from connect_runtime.validation.infos import unresolved_references
from connect_specs.desired import DesiredConnector, Project
from connect_specs.diagnostics import Diagnostic, Location, Severity, by_place, by_severity, warning
from connect_specs.plain_text import listed
from connect_specs.plugin_definitions import (
    CLASS_KEY,
    CONNECTORS,
    Definitions,
    elements,
    keys_of,
    nearest_class,
    parts_of,
    passwords,
    passwords_in,
)
from connect_specs.plugins_lock import PLUGINS_LOCK, load_lock, load_locked_plugins
from connect_specs.secrets import holds_secret, holds_text, is_sensitive, without_references

_SHOWN_MOST: Final = 8
_PROVIDERS: Final = "config.providers"
_NO_NAME: Final = re.compile(r"[^A-Z0-9]+")
_LIST: Final = "`connect plugins list` shows all classes"
_INSTALL: Final = "install a Python class here, a Java plugin with `connect plugins install`"
_LOCK: Final = "`connect plugins lock` keeps the keys of installed plugins"


@dataclass(frozen=True, slots=True)
class PlannedConfig:
    """A config that is to be written, and the redactor of its secrets."""

    spec: DesiredConnector
    config: Mapping[str, str]
    redactor: ConfigRedactor

    @classmethod
    def of(
        cls, spec: DesiredConnector, config: Mapping[str, str], passwords: frozenset[str]
    ) -> PlannedConfig:
        """Returns the config with the secrets that the spec names, and these keys of passwords."""
        redactor = ConfigRedactor(
            spec.name, None, frozenset(spec.sensitive) | passwords, spec.secrets
        )
        return cls(spec, config, redactor)

    def place(self, key: str) -> Location:
        """Returns the place of the key in the spec; of a missing key, that of the class of which it
        is an option, or of the transformations or predicates to which it belongs."""
        places = self.spec.key_locations
        owners = [use.key for use in parts_of(self.config) if key.startswith(use.prefix)]
        owner = key.partition(".")[0]
        candidates = (places[name] for name in (key, *owners, owner, CLASS_KEY) if name in places)
        return next(candidates, self.spec.where)


def findings(
    project: Project,
    configs: Iterable[PlannedConfig],
    answers: ClusterAnswers,
    plugins: Definitions,
) -> Iterator[Diagnostic]:
    """Yields errors of these configs by place, then warnings by connector."""
    ours = project.uses_runtime
    judge = Judge(project, plugins, answers)
    errors: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    unchecked: list[str] = []
    locked = load_lock(project.folder) is not None
    unknown: dict[str, PlannedConfig] = {}
    for planned in configs:
        unlisted = _unlisted(project, planned) if ours else None
        if unlisted is not None:
            errors.append(unlisted)
            continue
        name, class_name = planned.spec.name, planned.config[CLASS_KEY]
        answered = name in answers.validations
        if not answered and plugins.find(class_name, CONNECTORS) is None:
            reason = why_not_loaded(class_name) if ours else ""
            if reason:
                errors.append(_unusable_class(planned, reason))
            elif not ours or installed(class_name, CONNECTORS) is None:
                if locked:
                    errors.append(_unknown_class(project, planned, plugins, locked=True))
                else:
                    # One for each class: without a lock there may be many
                    unknown.setdefault(class_name, planned)
        verdict = judge.verdict(name, planned.config)
        if verdict.jvm_reason:
            warnings.append(_in_jvm(planned, verdict.jvm_reason))
        # Our runtime's leader runs the connector, so a reference that it cannot resolve is an error
        resolved = ours and answered
        errors += _refusals(project, planned, verdict, plugins, resolved=resolved)
        broken = tuple(_broken_chains(planned, plugins))
        errors += broken
        slipped = tuple(_slips(planned, verdict, plugins))
        broken_places = {slip.where for slip in (*broken, *slipped)}
        warnings += slipped
        unread_here = _unread(project, planned, verdict, plugins)
        severe, mild = by_severity(d for d in unread_here if d.where not in broken_places)
        errors += severe
        warnings += mild
        warnings += _clear_text_secrets(project, planned.spec, plugins)
        if ours:
            warnings += _unresolved(planned, project.worker)
        references = [key for key, value in planned.config.items() if holds_reference(value)]
        if references and not resolved:
            unchecked.append(f"{name} ({', '.join(sorted(references))})")
    warnings += [
        _unknown_class(project, planned, plugins, locked=False) for planned in unknown.values()
    ]
    if unchecked:
        warnings.append(_not_checkable(unchecked))
    yield from by_place(errors)
    yield from warnings


def _in_jvm(planned: PlannedConfig, reason: str) -> Diagnostic:
    text = f"{planned.spec.name}: {planned.config[CLASS_KEY]} runs in a JVM, as Java's class"
    return warning("config.runs-in-jvm", text, planned.place(CLASS_KEY), reason)


def _refusals(
    project: Project,
    planned: PlannedConfig,
    verdict: Validation,
    plugins: Definitions,
    *,
    resolved: bool,
) -> Iterator[Diagnostic]:
    """Yields each error text once. Errors of references are not known before they are
    `resolved`."""
    texts: set[str] = set()
    keys: set[str] = set()
    for problem in verdict.problems:
        value = planned.config.get(problem.key, "")
        follows = problem.key in keys and follows_from_another(problem.error)
        unknown = not resolved and any(map(holds_reference, (value, problem.error)))
        if follows or unknown or problem.error in texts:
            continue
        texts.add(problem.error)
        keys.add(problem.key)
        text = _hidden(planned, verdict, problem.error)
        hint = (
            problem.hint
            or _module_to_list(project, planned, problem)
            or _class_meant(planned, problem, plugins)
            or _recommendation(value, problem.recommended)
            or f"correct {problem.key} in the spec's config"
        )
        hint = _hidden(planned, verdict, hint)
        place = planned.place(problem.key)
        yield Diagnostic("config.refused", f"{planned.spec.name}: {text}", place, hint=hint)


def _hidden(planned: PlannedConfig, verdict: Validation, text: str) -> str:
    secrets = planned.redactor.named | passwords(verdict.keys.values())
    text = replace(planned.redactor, named=secrets).redact(text, planned.config)
    # values that the cluster put in the place of references are secret
    resolved = {
        key: value
        for key, value in verdict.values.items()
        if holds_reference(planned.config.get(key, "")) and value != planned.config[key]
    }
    if not resolved:
        return text
    return replace(planned.redactor, named=frozenset(resolved)).redact(text, resolved)


def _recommendation(value: str, recommended: tuple[str, ...]) -> str:
    if value in recommended:
        return ""
    is_long = len(recommended) > _SHOWN_MOST
    names = get_close_matches(value, recommended, 3) if is_long else recommended
    return f"recommended: {', '.join(names)}" if names else ""


def _class_meant(planned: PlannedConfig, problem: KeyProblem, plugins: Definitions) -> str:
    """Returns a hint for a name that no plugin has: the nearest class, and the list of all."""
    types = {use.key: use.types for use in parts_of(planned.config)} | {CLASS_KEY: CONNECTORS}
    if problem.key not in types or not class_not_found(problem.error):
        return ""
    kinds, name = types[problem.key], planned.config.get(problem.key, "")
    near = nearest_class(name, plugins.class_names(kinds), kinds)
    return f"did you mean {near}? {_LIST}" if near else _LIST


def unread(
    config: Mapping[str, str], verdict: Validation, plugins: Definitions
) -> Iterator[KeyProblem]:
    """Yields the keys of a config that nothing reads, as far as its plugins are known."""
    keys = keys_of(config, plugins)
    if verdict.keys:
        keys = {**(keys or {}), **verdict.keys}
    yield from () if keys is None else unknown_keys(config, keys)


def _unread(
    project: Project, planned: PlannedConfig, verdict: Validation, plugins: Definitions
) -> Iterator[Diagnostic]:
    for problem in unread(planned.config, verdict, plugins):
        yield _of_key(planned, "config.unknown-key", problem, project.unknown_keys)


def _broken_chains(planned: PlannedConfig, plugins: Definitions) -> Iterator[Diagnostic]:
    """Yields mistakes in transformations that Connect accepts."""
    for problem in undefined_predicates(planned.config):
        yield _of_key(planned, "config.undefined-predicate", problem)
    for problem in mistyped_options(planned.config, plugins):
        yield _of_key(planned, "config.unknown-option", problem)


def _of_key(
    planned: PlannedConfig, code: str, problem: KeyProblem, severity: Severity = "error"
) -> Diagnostic:
    text = f"{planned.spec.name}: {problem.error}"
    return Diagnostic(code, text, planned.place(problem.key), "", problem.hint, severity)


def _slips(
    planned: PlannedConfig, verdict: Validation, plugins: Definitions
) -> Iterator[Diagnostic]:
    is_sink = kind_by_class(planned.config, plugins) == "sink"
    for problem in slips(planned.config, is_sink=is_sink):
        text = _hidden(planned, verdict, problem.error)
        yield _of_key(planned, "config.slip", replace(problem, error=text), "warning")
    for glob, near in sensitive_slips(planned.spec.sensitive, planned.config):
        text = f"{planned.spec.name}: 'sensitive' names {glob!r}, which the config has not"
        yield warning("config.slip", text, planned.spec.where, hint=f"did you mean {near!r}?")


def _unresolved(planned: PlannedConfig, worker: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yields references that our runtime does not resolve."""
    for sentence in unresolved_references(planned.config, worker):
        place = planned.place(sentence.partition(" ")[0])
        text, hint = f"{planned.spec.name}: {sentence}", "remove it, or run where it is followed"
        yield warning("config.without-effect", text, place, hint=hint)


def _unlisted(project: Project, planned: PlannedConfig) -> Diagnostic | None:
    """Returns the error of a class that may not be imported. Nothing else is checked then."""
    name = planned.config[CLASS_KEY]
    module = unlisted_module(name)
    if module is None:
        return None
    text = f"{planned.spec.name}: {name} is in a module that connect.yaml does not list"
    reason = "importing a module runs its code, so only listed modules are imported"
    hint = _listing(project, module)
    return Diagnostic("config.unlisted-module", text, planned.place(CLASS_KEY), reason, hint)


def _module_to_list(project: Project, planned: PlannedConfig, problem: KeyProblem) -> str:
    """Returns the hint that allows the class of a converter, transformation or predicate."""
    keys = {use.key for use in parts_of(planned.config)} if project.uses_runtime else ()
    module = unlisted_module(planned.config[problem.key]) if problem.key in keys else None
    return "" if module is None else _listing(project, module)


def _listing(project: Project, module: str) -> str:
    modules = ",".join([*listed_modules(project.worker.get(PLUGIN_MODULES, "")), module])
    return f'add `{PLUGIN_MODULES}: "{modules}"` to connect.yaml, under cluster: worker:'


def _unusable_class(planned: PlannedConfig, reason: str) -> Diagnostic:
    text = f"{planned.spec.name}: the class {planned.config[CLASS_KEY]} cannot be used"
    hint = "correct it: a runtime cannot load it either"
    return Diagnostic("config.unknown-class", text, planned.place(CLASS_KEY), reason, hint)


def _unknown_class(
    project: Project, planned: PlannedConfig, plugins: Definitions, *, locked: bool
) -> Diagnostic:
    """Returns the problem of an unknown class: an error if the project has a lock file."""
    name = planned.config[CLASS_KEY]
    text = f"no class {name} is known here, so its config is not checked"
    if locked:
        text = f"{PLUGINS_LOCK} has no class {name}, so its config is not checked"
    reason = "its secrets can only be guessed from names and values;"
    reason += " `sensitive` in a spec adds keys"
    unanswered = plugins.unanswered(name, CONNECTORS)
    if unanswered:
        text = f"what {name} takes could not be asked, so its config is not checked"
        reason = f"the types of its keys are not known, and values are hidden: {unanswered}"
    near = nearest_class(name, plugins.class_names(CONNECTORS), CONNECTORS)
    hint = "run `connect plugins lock`"
    if project.uses_runtime and not locked:
        names = listed(plugin.name for plugin in load_locked_plugins(project.folder))
        hint = f"{_LOCK} ({names}); or {_INSTALL}" if names else f"{_INSTALL}; {_LOCK}"
    hint = f"did you mean {near}? {_LIST}; else {hint}" if near else f"{hint}; {_LIST}"
    severity: Severity = "error" if locked else "warning"
    text, place = f"{planned.spec.name}: {text}", planned.place(CLASS_KEY)
    return Diagnostic("config.unknown-class", text, place, reason, hint, severity)


def _not_checkable(unchecked: list[str]) -> Diagnostic:
    text = f"references are not resolved here, so not checked: {'; '.join(unchecked[:_SHOWN_MOST])}"
    if len(unchecked) > _SHOWN_MOST:
        text += f" and {len(unchecked) - _SHOWN_MOST} more connectors"
    return warning("config.not-checkable", text)


# secrets in clear text, and the references to write in their place


def _clear_text_secrets(
    project: Project, spec: DesiredConnector, plugins: Definitions
) -> Iterator[Diagnostic]:
    """Yields a warning if the spec holds secrets. Those of `values/` that templates bring do not
    count."""
    secrets = passwords_in(spec.config, plugins).union(spec.sensitive)
    keys = [
        key
        for key, text in spec.config.items()
        if is_sensitive(key, text, secrets) and not is_mask(text)
        if not holds_text(text, spec.secrets) and not _is_elsewhere(text)
    ]
    if keys:
        verb = "holds a secret" if len(keys) == 1 else "hold secrets"
        yield warning(
            "config.secret-in-clear-text",
            f"{spec.name}: {listed(keys)} {verb} in clear text",
            spec.key_locations.get(keys[0], spec.where),
            why="everyone who can read this file, its history or the connector's config can use it",
            hint=_reference_hint(project, spec.name, keys[0]),
        )


def _is_elsewhere(text: str) -> bool:
    """Returns True if the secret of a value is behind its reference, as in a JAAS entry: nothing
    else in it looks like one."""
    return without_references(text) != text and not holds_secret(text)


def _reference_hint(project: Project, name: str, key: str) -> str:
    provider = next(iter(elements(project.worker.get(_PROVIDERS, ""))), None)
    if provider is not None:
        return f"write {_reference(provider, project.worker, name, key)} in place of the secret"
    if project.uses_runtime:
        reference = _reference("env", {}, name, key)
        declare = f"declare a provider under cluster: worker: ({_PROVIDERS}) in connect.yaml"
        return f"write {reference} in place of the secret, and {declare}"
    reference = f"${{file:/path/to/secrets.properties:{key}}}"
    return f"write a reference to a provider of the workers in its place, such as {reference}"


def _reference(provider: str, worker: Mapping[str, str], name: str, key: str) -> str:
    """Returns the reference for a provider of Kafka's; the syntax of others is not known."""
    kind = worker.get(f"{_PROVIDERS}.{provider}.class", "EnvVar" if provider == "env" else "")
    simple = kind.rpartition(".")[2].removesuffix("ConfigProvider")
    match simple:
        case "EnvVar":
            return f"${{{provider}:{_NO_NAME.sub('_', f'{name}_{key}'.upper()).strip('_')}}}"
        case "File":
            return f"${{{provider}:/path/to/secrets.properties:{key}}}"
        case "Directory":
            return f"${{{provider}:/path/to/folder:{key}}}"
        case _:
            return f"${{{provider}:path:key}}"
