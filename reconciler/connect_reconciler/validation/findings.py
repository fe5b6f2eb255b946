"""What is said of configs that are to be written: errors and warnings, without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from connect_reconciler.backend.plugins import KeyProblem, Validation, installed, why_not_loaded
from connect_reconciler.backend.rest.refusals import class_not_found, follows_from_another
from connect_reconciler.model.secrets import ConfigRedactor
from connect_reconciler.validation.clear_text import clear_text_secrets
from connect_reconciler.validation.judges import (
    ClusterAnswers,
    first_verdict,
    kind_by_class,
    local_judges,
)
from connect_reconciler.validation.keys import (
    Finding,
    mistyped_options,
    sensitive_slips,
    slips,
    undefined_predicates,
    unknown_keys,
)
from connect_runtime.config_providers.references import holds_reference
from connect_runtime.plugins.modules import PLUGIN_MODULES, listed_modules, unlisted_module
from connect_runtime.validation.unresolved_references import unresolved_references
from connect_specs.desired import DesiredConnector, Project
from connect_specs.diagnostics import Diagnostic, Location, Severity, by_place, by_severity, warning
from connect_specs.plugin_definitions import (
    CLASS_KEY,
    CONNECTORS,
    Definitions,
    keys_of,
    nearest_class,
    parts_of,
    passwords,
)
from connect_specs.plugins_lock import PLUGINS_LOCK, has_lock

_SHOWN_MOST: Final = 8
_LIST: Final = "`connect plugins list` shows all classes"
_INSTALL: Final = (
    "install it here; Java's run on an Apache cluster: `target: {rest: URL}` in connect.yaml"
)


@dataclass(frozen=True, slots=True)
class Written:
    """A config that is to be written, and the redactor of its secrets."""

    spec: DesiredConnector
    config: Mapping[str, str]
    redactor: ConfigRedactor

    @classmethod
    def of(
        cls, spec: DesiredConnector, config: Mapping[str, str], passwords: frozenset[str]
    ) -> Written:
        """With the secrets that the spec names, and these keys of passwords."""
        redactor = ConfigRedactor(
            spec.name, None, frozenset(spec.sensitive) | passwords, spec.secrets
        )
        return cls(spec, config, redactor)

    def place(self, key: str) -> Location:
        """Where the spec has the key; of a missing one, where it names the class of which it is an
        option, or the transformations or predicates to which it belongs."""
        places = self.spec.key_locations
        owners = [part.key for part in parts_of(self.config) if key.startswith(part.prefix)]
        listed = key.partition(".")[0]
        found = (places[each] for each in (key, *owners, listed, CLASS_KEY) if each in places)
        return next(found, self.spec.where)


def findings(
    project: Project, written: Iterable[Written], answers: ClusterAnswers, plugins: Definitions
) -> Iterator[Diagnostic]:
    """All that is said of these configs: errors by place, then warnings by connector."""
    ours = project.uses_runtime
    judges = (answers, *local_judges(project, plugins))
    errors: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    unchecked: list[str] = []
    locked = has_lock(project.folder)
    unknown: dict[str, Written] = {}
    for each in written:
        unlisted = _unlisted(project, each) if ours else None
        if unlisted is not None:
            errors.append(unlisted)
            continue
        name, class_name = each.spec.name, each.config[CLASS_KEY]
        answered = answers.verdict(name, each.config) is not None
        if not answered and plugins.find(class_name, CONNECTORS) is None:
            why = why_not_loaded(class_name) if ours else ""
            if why:
                errors.append(_unusable_class(each, why))
            elif not ours or installed(class_name, CONNECTORS) is None:
                if locked:
                    errors.append(_unknown_class(project, each, plugins, locked=True))
                else:
                    # One for each class: without a lock there may be many
                    unknown.setdefault(class_name, each)
        verdict = first_verdict(judges, name, each.config)
        # Our runtime's leader runs the connector, so a reference that it cannot resolve is an error
        resolved = ours and answered
        errors += _refusals(project, each, verdict, plugins, resolved=resolved)
        broken = tuple(_broken_chains(each, plugins))
        errors += broken
        slipped = tuple(_slips(each, verdict, plugins))
        told = {slip.where for slip in (*broken, *slipped)}
        warnings += slipped
        unread_here = _unread(project, each, verdict, plugins)
        severe, mild = by_severity(found for found in unread_here if found.where not in told)
        errors += severe
        warnings += mild
        warnings += clear_text_secrets(project, each.spec, plugins)
        if ours:
            warnings += _unresolved(each, project.worker)
        references = [key for key, value in each.config.items() if holds_reference(value)]
        if references and not resolved:
            unchecked.append(f"{name} ({', '.join(sorted(references))})")
    warnings += [_unknown_class(project, each, plugins, locked=False) for each in unknown.values()]
    if unchecked:
        warnings.append(_not_checkable(unchecked))
    yield from by_place(errors)
    yield from warnings


def _refusals(
    project: Project, each: Written, verdict: Validation, plugins: Definitions, *, resolved: bool
) -> Iterator[Diagnostic]:
    """Each text once. What is wrong with a reference is not known before it is `resolved`."""
    texts: set[str] = set()
    keys: set[str] = set()
    for problem in verdict.problems:
        value = each.config.get(problem.key, "")
        follows = problem.key in keys and follows_from_another(problem.error)
        unknown = not resolved and any(map(holds_reference, (value, problem.error)))
        if follows or unknown or problem.error in texts:
            continue
        texts.add(problem.error)
        keys.add(problem.key)
        what = _hidden(each, verdict, problem.error)
        hint = (
            problem.hint
            or _module_to_list(project, each, problem)
            or _class_meant(each, problem, plugins)
            or _recommendation(value, problem.recommended)
            or f"correct {problem.key} in the spec's config"
        )
        hint = _hidden(each, verdict, hint)
        place = each.place(problem.key)
        yield Diagnostic("config.refused", f"{each.spec.name}: {what}", place, hint=hint)


def _hidden(each: Written, verdict: Validation, text: str) -> str:
    named = each.redactor.named | passwords(verdict.keys.values())
    text = replace(each.redactor, named=named).redact(text, each.config)
    # What the cluster put in the place of references is secret, whatever the key
    resolved = {
        key: value
        for key, value in verdict.values.items()
        if holds_reference(each.config.get(key, "")) and value != each.config[key]
    }
    if not resolved:
        return text
    return replace(each.redactor, named=frozenset(resolved)).redact(text, resolved)


def _recommendation(value: str, recommended: tuple[str, ...]) -> str:
    shown = () if value in recommended else recommended
    if len(recommended) > _SHOWN_MOST:
        shown = tuple(get_close_matches(value, recommended, 3))
    return f"recommended: {', '.join(shown)}" if shown else ""


def _class_meant(each: Written, problem: KeyProblem, plugins: Definitions) -> str:
    """Which class a name may mean that no plugin has, and where to find the others."""
    types = {part.key: part.types for part in parts_of(each.config)} | {CLASS_KEY: CONNECTORS}
    if problem.key not in types or not class_not_found(problem.error):
        return ""
    wanted, name = types[problem.key], each.config.get(problem.key, "")
    near = nearest_class(name, plugins.class_names(wanted), wanted)
    return f"did you mean {near}? {_LIST}" if near else _LIST


def unread(
    config: Mapping[str, str], verdict: Validation, plugins: Definitions
) -> Iterator[Finding]:
    """Yields the keys of a config that nothing reads, as far as its plugins are known."""
    keys = keys_of(config, plugins)
    if verdict.keys:
        keys = {**(keys or {}), **verdict.keys}
    yield from () if keys is None else unknown_keys(config, keys)


def _unread(
    project: Project, each: Written, verdict: Validation, plugins: Definitions
) -> Iterator[Diagnostic]:
    for found in unread(each.config, verdict, plugins):
        what, place = f"{each.spec.name}: {found.what}", each.place(found.key)
        severity = project.unknown_keys
        yield Diagnostic("config.unknown-key", what, place, "", found.hint, severity)


def _broken_chains(each: Written, plugins: Definitions) -> Iterator[Diagnostic]:
    """What Connect accepts of transformations, and nobody can have meant."""
    for code, found in (
        *(("config.undefined-predicate", found) for found in undefined_predicates(each.config)),
        *(("config.unknown-option", found) for found in mistyped_options(each.config, plugins)),
    ):
        what = f"{each.spec.name}: {found.what}"
        yield Diagnostic(code, what, each.place(found.key), hint=found.hint)


def _slips(each: Written, verdict: Validation, plugins: Definitions) -> Iterator[Diagnostic]:
    is_sink = kind_by_class(each.config, plugins) == "sink"
    for found in slips(each.config, is_sink=is_sink):
        what = _hidden(each, verdict, f"{each.spec.name}: {found.what}")
        hint = found.hint or f"correct {found.key}, or remove it"
        yield warning("config.slip", what, each.place(found.key), hint=hint)
    for glob, near in sensitive_slips(each.spec.sensitive, each.config):
        what = f"{each.spec.name}: 'sensitive' names {glob!r}, which the config has not"
        yield warning("config.slip", what, each.spec.where, hint=f"did you mean {near!r}?")


def _unresolved(each: Written, worker: Mapping[str, str]) -> Iterator[Diagnostic]:
    """References that our runtime does not resolve."""
    for what in unresolved_references(each.config, worker):
        place = each.place(what.partition(" ")[0])
        what, hint = f"{each.spec.name}: {what}", "remove it, or run where it is followed"
        yield warning("config.without-effect", what, place, hint=hint)


def _unlisted(project: Project, each: Written) -> Diagnostic | None:
    """Nothing else can be said of a config whose class may not be imported."""
    name = each.config[CLASS_KEY]
    module = unlisted_module(name)
    if module is None:
        return None
    what = f"{each.spec.name}: {name} is in a module that connect.yaml does not list"
    why = "importing a module runs its code, so only listed modules are imported"
    hint = _listing(project, module)
    return Diagnostic("config.unlisted-module", what, each.place(CLASS_KEY), why, hint)


def _module_to_list(project: Project, each: Written, problem: KeyProblem) -> str:
    """How to allow the class of a converter, transformation or predicate."""
    keys = {part.key for part in parts_of(each.config)} if project.uses_runtime else ()
    module = unlisted_module(each.config[problem.key]) if problem.key in keys else None
    return "" if module is None else _listing(project, module)


def _listing(project: Project, module: str) -> str:
    listed = ",".join([*listed_modules(project.worker.get(PLUGIN_MODULES, "")), module])
    return f'add `{PLUGIN_MODULES}: "{listed}"` to connect.yaml, under cluster: worker:'


def _unusable_class(each: Written, why: str) -> Diagnostic:
    what = f"{each.spec.name}: the class {each.config[CLASS_KEY]} cannot be used"
    hint = "correct it: a runtime cannot load it either"
    return Diagnostic("config.unknown-class", what, each.place(CLASS_KEY), why, hint)


def _unknown_class(
    project: Project, each: Written, plugins: Definitions, *, locked: bool
) -> Diagnostic:
    """A class that nobody defines: an error if the project has a lock file, which lacks it."""
    name = each.config[CLASS_KEY]
    what = f"no class {name} is known here, so its config is not checked"
    if locked:
        what = f"{PLUGINS_LOCK} has no class {name}, so its config is not checked"
    why = "its secrets can only be guessed from names and values; `sensitive` in a spec adds keys"
    unanswered = plugins.unanswered(name, CONNECTORS)
    if unanswered:
        what = f"what {name} takes could not be asked, so its config is not checked"
        why = f"the types of its keys are not known, and values are hidden: {unanswered}"
    near = nearest_class(name, plugins.class_names(CONNECTORS), CONNECTORS)
    hint = _INSTALL if project.uses_runtime and not locked else "run `connect plugins lock`"
    hint = f"did you mean {near}? {_LIST}; else {hint}" if near else f"{hint}; {_LIST}"
    severity: Severity = "error" if locked else "warning"
    what, place = f"{each.spec.name}: {what}", each.place(CLASS_KEY)
    return Diagnostic("config.unknown-class", what, place, why, hint, severity)


def _not_checkable(unchecked: list[str]) -> Diagnostic:
    what = f"references are not resolved here, so not checked: {'; '.join(unchecked[:_SHOWN_MOST])}"
    if len(unchecked) > _SHOWN_MOST:
        what += f" and {len(unchecked) - _SHOWN_MOST} more connectors"
    return warning("config.not-checkable", what)
