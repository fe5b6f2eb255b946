"""Would the cluster take the configs that the specs ask for? Asked before an apply, not during it.

Only configs that are to be written are looked at. The cluster's own validation counts; where it
cannot be asked, our runtime's rules for classes that are installed here, else what definitions say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from connect_reconciler.cluster.choose import rest_client
from connect_reconciler.cluster.plugins import KeyProblem, RestPlugins, Validation
from connect_reconciler.hiding import hide
from connect_reconciler.observe.classes import passwords, passwords_in
from connect_reconciler.observe.cluster_validation import Answers, ask_cluster
from connect_reconciler.observe.known_plugins import Installed, at_hand, known_plugins
from connect_reconciler.observe.pin_checks import check_pins, refused_pin
from connect_reconciler.observe.project_checks import NO_KAFKA, OF_NULL
from connect_reconciler.observe.slots import check_slots, slots_of
from connect_reconciler.plan.checks.config import (
    CLASS_KEY,
    keys_of,
    unknown_keys,
    wrong_values,
)
from connect_reconciler.plan.checks.config_slips import sensitive_slips, slips
from connect_reconciler.plan.diff import written_config
from connect_reconciler.plan.kinds import kind_of
from connect_reconciler.plan.live import Kind, Live
from connect_reconciler.plan.renames.rename import base_config, recorded_pin
from connect_reconciler.plan.reserved import without_reserved
from connect_reconciler.plan.secrets.sensitive import Veil
from connect_runtime.config_providers.references import holds_reference
from connect_runtime.herder.errors import RequestError
from connect_runtime.plugins import PLUGIN_MODULES, listed_modules, unlisted_module
from connect_runtime.validation.validate import check_common, validate
from connect_runtime.validation.without_effect import without_effect
from connect_runtime.worker_config import WorkerConfig, from_project
from connect_specs.desired import Desired, DesiredConnector, Project
from connect_specs.diagnostics import ConnectError, Diagnostic, Invalid, Location, by_place
from connect_specs.plugin_definitions import (
    CONNECTORS,
    SINK,
    Definitions,
    nearest_class,
    parts_of,
)

_SHOWN_MOST = 8
_NO_SUCH_CLASS = ("could not be found", "Failed to find any class", "has no connector class")


@dataclass(frozen=True, slots=True)
class _Written:
    """A config that is to be written, and what covers its secrets."""

    spec: DesiredConnector
    config: Mapping[str, str]
    cover: Veil

    def place(self, key: str) -> Location:
        """Where the spec has the key; of a missing one, where it names the class."""
        places = self.spec.key_locations
        return places.get(key) or places.get(CLASS_KEY) or self.spec.where


def checked(live: Live, project: Project, desired: Desired, client: Mapping[str, str]) -> Live:
    """`live` with what there is to say about the configs that are to be written."""
    live = replace(live, errors=(*live.errors, *_refused_pins(desired, live)))
    written = tuple(_to_be_written(desired, live))
    if not written:
        return live
    answers = _answers(project, client, written)
    with known_plugins(project, client) as plugins:
        errors, warnings = _findings(project, written, answers, plugins)
    found = {
        name: passwords(validation.keys.values()) | live.password_keys.get(name, frozenset())
        for name, validation in answers.validations.items()
    }
    return replace(
        live,
        errors=(*live.errors, *errors),
        warnings=(
            *live.warnings,
            *warnings,
            *answers.warnings(),
            *check_slots(desired, live, answers.slots),
        ),
        password_keys={
            **live.password_keys,
            **{name: keys for name, keys in found.items() if keys},
        },
    )


def check_specs(
    project: Project, desired: Desired
) -> tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]]:
    """Errors and warnings of all specs, without asking anybody."""
    plugins = at_hand(project)
    written = tuple(
        _Written(spec, spec.config, _cover(spec, passwords_in(spec.config, plugins)))
        for spec in desired.connectors.values()
    )
    errors, warnings = _findings(project, written, Answers(), plugins)
    wrong_pins, doubtful_pins = check_pins(desired, plugins)
    return (*errors, *wrong_pins), (*warnings, *doubtful_pins)


def _refused_pins(desired: Desired, live: Live) -> Iterator[Diagnostic]:
    """Of pins that are not applied yet."""
    for spec in desired.connectors.values():
        if spec.pin is not None and recorded_pin(spec, live) is None:
            yield from refused_pin(spec, spec.pin)


def _to_be_written(desired: Desired, live: Live) -> Iterator[_Written]:
    for name, spec in desired.connectors.items():
        there = live.connectors.get(name)
        stored = None if there is None else without_reserved(there.config)
        config = written_config(spec, base_config(spec, live))
        if config != stored:
            yield _Written(spec, config, _cover(spec, live.password_keys.get(name, frozenset())))


def _cover(spec: DesiredConnector, passwords: frozenset[str]) -> Veil:
    return Veil(spec.name, None, frozenset(spec.sensitive) | passwords, spec.secrets)


def _answers(project: Project, client: Mapping[str, str], written: Iterable[_Written]) -> Answers:
    configs = {each.spec.name: each.config for each in written}
    try:
        rest = rest_client(project, client)
    except ConnectError as error:
        return Answers(silences=dict.fromkeys(configs, error.diagnostics[0].what))
    if rest is None:
        # Nobody runs the connectors now: our own rules are as good.
        return Answers()
    try:
        slots = slots_of(rest) if project.target is None else None
        return replace(ask_cluster(RestPlugins(rest), configs), slots=slots)
    finally:
        rest.close()


# --- what is said ---


def _findings(
    project: Project, written: Iterable[_Written], answers: Answers, plugins: Definitions
) -> tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]]:
    ours = project.target is None
    worker = _worker(project) if ours else None
    errors: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    unchecked: list[str] = []
    unknown: dict[str, _Written] = {}
    for each in written:
        answer = answers.validations.get(each.spec.name)
        unlisted = _unlisted(project, each) if ours else None
        if unlisted is not None:
            errors.append(unlisted)
            continue
        known = answer is not None or plugins.find(each.config[CLASS_KEY], CONNECTORS) is not None
        if not known:
            unknown.setdefault(each.config[CLASS_KEY], each)
        problems = _problems(each, answer, plugins, worker, project.group_id)
        # our runtime's leader runs the connector, so what it cannot resolve cannot run
        resolved = ours and answer is not None
        errors += _refusals(each, problems, answer, plugins, resolved=resolved)
        slipped = tuple(_slips(each, answer, plugins))
        told = {slip.where for slip in slipped}
        warnings += slipped
        warnings += [warn for warn in _unread(each, answer, plugins) if warn.where not in told]
        if ours:
            warnings += _without_effect(each, project.worker)
        references = [key for key, value in each.config.items() if holds_reference(value)]
        if references and not resolved:
            unchecked.append(f"{each.spec.name} ({', '.join(sorted(references))})")
    warnings += [_unknown_class(project, name, each, plugins) for name, each in unknown.items()]
    if unchecked:
        warnings.append(_not_checkable(unchecked))
    return tuple(by_place(errors)), tuple(warnings)


def _worker(project: Project) -> WorkerConfig | None:
    """None if connect.yaml sets it up wrongly, which `check_project` says."""
    try:
        bootstrap = NO_KAFKA if project.kafka is None else None
        worker, _ = from_project(project, bootstrap, resolve=False)
    except Invalid:
        return None
    return worker


def _problems(
    each: _Written,
    answer: Validation | None,
    plugins: Definitions,
    worker: WorkerConfig | None,
    worker_group: str,
) -> Iterable[KeyProblem]:
    """From the best judge there is: of a class that nobody knows, only of Connect's own keys."""
    if answer is not None:
        return answer.problems
    if worker is not None and Installed().find(each.config[CLASS_KEY], CONNECTORS) is not None:
        return _by_our_rules(each.config, worker)
    keys = keys_of(each.config, plugins) or {}
    is_sink = _kind(each.config, plugins) == "sink"
    common = check_common(each.config, is_sink=is_sink, worker_group=worker_group)
    own = ((found.key, found.what) for found in wrong_values(each.config, keys))
    return [KeyProblem(key, what) for key, what in (*own, *common)]


def _kind(config: Mapping[str, str], plugins: Definitions) -> Kind:
    plugin = plugins.find(config.get(CLASS_KEY, ""), CONNECTORS)
    told: dict[str, Kind] = {}
    if plugin is not None:
        told[config[CLASS_KEY]] = "sink" if plugin.type == SINK else "source"
    return kind_of(config, None, told)


def _by_our_rules(config: Mapping[str, str], worker: WorkerConfig) -> list[KeyProblem]:
    try:
        infos = validate(config, worker)
    except RequestError as error:
        return [KeyProblem(CLASS_KEY, error.message)]
    return [
        KeyProblem(info.value.name, error, info.value.recommended)
        for info in infos.configs
        if info.value is not None
        for error in info.value.errors
    ]


def _refusals(
    each: _Written,
    problems: Iterable[KeyProblem],
    answer: Validation | None,
    plugins: Definitions,
    *,
    resolved: bool,
) -> Iterator[Diagnostic]:
    """Each text once. What is wrong with a reference is not known before it is `resolved`."""
    texts: set[str] = set()
    keys: set[str] = set()
    for problem in problems:
        value = each.config.get(problem.key, "")
        # A value that could not be parsed is then judged as null
        follows = problem.key in keys and problem.error.startswith(OF_NULL)
        unknown = not resolved and any(map(holds_reference, (value, problem.error)))
        if follows or unknown or problem.error in texts:
            continue
        texts.add(problem.error)
        keys.add(problem.key)
        what = _hidden(each, answer, problem.error)
        hint = _class_meant(each, problem, plugins) or _recommendation(value, problem.recommended)
        hint = hint or f"correct {problem.key} in the spec's config"
        hint = _hidden(each, answer, hint)
        place = each.place(problem.key)
        yield Diagnostic("config.refused", f"{each.spec.name}: {what}", place, hint=hint)


def _hidden(each: _Written, answer: Validation | None, text: str) -> str:
    if answer is None:
        return hide(text, each.cover, each.config)
    # What the cluster put in the place of references is secret, whatever the key
    resolved = {
        key: value
        for key, value in answer.values.items()
        if holds_reference(each.config.get(key, "")) and value != each.config[key]
    }
    named = each.cover.named | passwords(answer.keys.values())
    text = hide(text, replace(each.cover, named=named), each.config)
    return hide(text, replace(each.cover, named=frozenset(resolved)), resolved)


def _recommendation(value: str, recommended: tuple[str, ...]) -> str:
    shown = recommended
    if len(recommended) > _SHOWN_MOST:
        shown = tuple(get_close_matches(value, recommended, 3))
    return f"recommended: {', '.join(shown)}" if shown else ""


def _class_meant(each: _Written, problem: KeyProblem, plugins: Definitions) -> str:
    """Which class a name may mean that no plugin has."""
    types = {part.key: part.types for part in parts_of(each.config)} | {CLASS_KEY: CONNECTORS}
    if problem.key not in types or not any(text in problem.error for text in _NO_SUCH_CLASS):
        return ""
    wanted, name = types[problem.key], each.config.get(problem.key, "")
    near = nearest_class(name, plugins.class_names(wanted), wanted)
    return f"did you mean {near}?" if near else ""


def _unread(
    each: _Written, answer: Validation | None, plugins: Definitions
) -> Iterator[Diagnostic]:
    keys = keys_of(each.config, plugins)
    if answer is not None and answer.keys:
        keys = {**(keys or {}), **answer.keys}
    for found in () if keys is None else unknown_keys(each.config, keys):
        what = f"{each.spec.name}: {found.what}"
        yield Diagnostic("config.unknown-key", what, each.place(found.key), hint=found.hint)


def _slips(each: _Written, answer: Validation | None, plugins: Definitions) -> Iterator[Diagnostic]:
    for found in slips(each.config, is_sink=_kind(each.config, plugins) == "sink"):
        what = _hidden(each, answer, f"{each.spec.name}: {found.what}")
        hint = found.hint or f"correct {found.key}, or remove it"
        yield Diagnostic("config.slip", what, each.place(found.key), hint=hint)
    for glob, near in sensitive_slips(each.spec.sensitive, each.config):
        what = f"{each.spec.name}: 'sensitive' names {glob!r}, which the config has not"
        yield Diagnostic("config.slip", what, each.spec.where, hint=f"did you mean {near!r}?")


def _without_effect(each: _Written, worker: Mapping[str, str]) -> Iterator[Diagnostic]:
    """What our runtime takes, and does not act on."""
    for what in without_effect(each.config, worker):
        place = each.place(what.partition(" ")[0])
        what, hint = f"{each.spec.name}: {what}", "remove it, or run where it is followed"
        yield Diagnostic("config.without-effect", what, place, hint=hint)


def _unlisted(project: Project, each: _Written) -> Diagnostic | None:
    """Nothing else can be said of a config whose class may not be imported."""
    name = each.config[CLASS_KEY]
    module = unlisted_module(name)
    if module is None:
        return None
    listed = ",".join([*listed_modules(project.worker.get(PLUGIN_MODULES, "")), module])
    what = f"{each.spec.name}: {name} is in a module that connect.yaml does not list"
    why = "importing a module runs its code, so only listed modules are imported"
    hint = f'add `{PLUGIN_MODULES}: "{listed}"` to connect.yaml, under cluster: worker:'
    return Diagnostic("config.unlisted-module", what, each.place(CLASS_KEY), why, hint)


def _unknown_class(project: Project, name: str, each: _Written, plugins: Definitions) -> Diagnostic:
    what = f"{each.spec.name}: no class {name} is known here, so its config is not checked"
    why = "its secrets can only be guessed from names and values; `sensitive` in a spec adds keys"
    near = nearest_class(name, plugins.class_names(CONNECTORS), CONNECTORS)
    hint = "install it here" if project.target is None else "run `connect plugins lock`"
    hint = f"did you mean {near}? Else {hint}" if near else hint
    return Diagnostic("config.unknown-class", what, each.place(CLASS_KEY), why, hint)


def _not_checkable(unchecked: list[str]) -> Diagnostic:
    what = f"references are not resolved here, so not checked: {'; '.join(unchecked[:_SHOWN_MOST])}"
    if len(unchecked) > _SHOWN_MOST:
        what += f" and {len(unchecked) - _SHOWN_MOST} more connectors"
    return Diagnostic("config.not-checkable", what)
