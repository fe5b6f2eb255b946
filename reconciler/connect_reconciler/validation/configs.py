"""Would the cluster take the configs that the specs ask for? Asked before an apply, not during it.

Only configs that are to be written are judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from connect_reconciler.backend.backend import Backend
from connect_reconciler.backend.observe.plugin_facts import passwords
from connect_reconciler.backend.plugins import RestPlugins
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.live import Live
from connect_reconciler.plan.diff import written_config
from connect_reconciler.plan.renames.rename import base_config, recorded_pin
from connect_reconciler.validation.findings import Written, findings
from connect_reconciler.validation.judges import ClusterAnswers, ask_cluster
from connect_reconciler.validation.offline import refused_pin
from connect_runtime.herder.errors import RequestError
from connect_specs.desired import Desired
from connect_specs.diagnostics import ConnectError, Diagnostic, by_severity
from connect_specs.states import TargetState

_TASKS_MAX: Final = "tasks.max"


def checked(live: Live, desired: Desired, backend: Backend) -> Live:
    """`live` with what there is to say about the configs that are to be written."""
    live = replace(live, errors=(*live.errors, *_refused_pins(desired, live)))
    written = tuple(_to_be_written(desired, live))
    if not written:
        return live
    answers, slots = _ask(backend, written)
    with backend.plugins() as plugins:
        errors, warnings = by_severity(findings(backend.project, written, answers, plugins))
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
            *check_slots(desired, live, slots),
        ),
        password_keys={
            **live.password_keys,
            **{name: keys for name, keys in found.items() if keys},
        },
    )


def check_slots(desired: Desired, live: Live, slots: int | None) -> Iterator[Diagnostic]:
    """A warning if more tasks may run than our runtime has slots.

    Each task takes one slot for as long as it runs. Those that find none are UNASSIGNED, which is
    no failure: so it is said beforehand.
    """
    if slots is None:
        return
    needed = sum(_tasks(name, desired, live) for name in {*desired.connectors, *live.connectors})
    if needed > slots:
        yield Diagnostic(
            "plan.slots",
            f"up to {needed} tasks may run, and the runtime has {slots} slots",
            why="tasks without a slot stay UNASSIGNED until another one ends",
            hint="give the runtime more slots (`connect up --slots`, spark.master), or lower "
            f"{_TASKS_MAX}",
            severity="warning",
        )


def _refused_pins(desired: Desired, live: Live) -> Iterator[Diagnostic]:
    """Of pins that are not applied yet."""
    for spec in desired.connectors.values():
        if spec.pin is not None and recorded_pin(spec, live) is None:
            yield from refused_pin(spec, spec.pin)


def _to_be_written(desired: Desired, live: Live) -> Iterator[Written]:
    for name, spec in desired.connectors.items():
        there = live.connectors.get(name)
        stored = None if there is None else without_reserved(there.config)
        config = written_config(spec, base_config(spec, live))
        if config != stored:
            yield Written.of(spec, config, live.password_keys.get(name, frozenset()))


def _ask(backend: Backend, written: Iterable[Written]) -> tuple[ClusterAnswers, int | None]:
    """What the cluster says of the configs, and how many tasks our runtime can run at once."""
    configs = {each.spec.name: each.config for each in written}
    try:
        rest = backend.rest()
    except ConnectError as error:
        return ClusterAnswers(silences=dict.fromkeys(configs, error.diagnostics[0].what)), None
    if rest is None:
        # Nobody runs the connectors now: our own rules are as good.
        return ClusterAnswers(), None
    try:
        slots = _slots(rest) if backend.project.uses_runtime else None
        return ask_cluster(RestPlugins(rest), configs), slots
    finally:
        rest.close()


def _slots(runtime: RestClient) -> int | None:
    """How many tasks the runtime can run at once; None where it does not tell, or not yet."""
    try:
        slots = runtime.read("/runtime")["slots"]
    except (ConnectError, RequestError, KeyError, TypeError):
        return None
    return slots if isinstance(slots, int) and slots > 0 else None


def _tasks(name: str, desired: Desired, live: Live) -> int:
    """How many tasks a connector may have: what it has now, if its config stays; else as many as
    its config allows."""
    spec, there = desired.connectors.get(name), live.connectors.get(name)
    if spec is None:
        # not ours, or about to be deleted
        is_other = name not in live.ledger.connectors
        return len(there.task_states) if there is not None and is_other else 0
    state = spec.state or (there.target if there is not None else TargetState.RUNNING)
    if state is TargetState.STOPPED:
        return 0
    if there is not None and there.task_states and _most(spec.config) == _most(there.config):
        return len(there.task_states)
    return _most(spec.config)


def _most(config: Mapping[str, str]) -> int:
    text = config.get(_TASKS_MAX, "1").strip()
    return int(text) if text.isdecimal() else 1
