"""Live connectors as specs: which may be imported, and what each spec says. Pure.

A secret is not written down: its key is left to the cluster, under `lifecycle.ignore`, so that the
next plan is empty and the value stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import escape

from connect_reconciler.plan.live import Live, LiveConnector
from connect_reconciler.plan.reserved import without_reserved
from connect_reconciler.plan.secrets.sensitive import is_mask
from connect_specs.desired import Desired, DesiredConnector
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.secret_values import is_sensitive
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class Imported:
    """A spec from live, and the keys of secrets that it leaves to the cluster."""

    spec: DesiredConnector
    left_out: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the file should know."""
        if not self.left_out:
            return ()
        return (
            "Secrets are not written here: the keys below lifecycle.ignore stay as they are on the"
            " cluster.\nTo manage one, write it under config as a reference, ${provider:path:key},"
            " and end ignoring it.",
        )


def importable(live: Live, desired: Desired) -> tuple[str, ...]:
    """The connectors of no spec and no project."""
    known = live.ledger.connectors.keys() | desired.connectors.keys()
    return tuple(sorted(live.connectors.keys() - known))


def choose(
    names: Iterable[str], live: Live, desired: Desired, *, again: bool
) -> tuple[LiveConnector, ...]:
    """The live connectors of these names. Raises Invalid with every name that cannot be imported.

    `again`: also those that this project has a spec of.
    """
    wanted = sorted(set(names))
    problems = tuple(_problems(wanted, live, desired, again=again))
    if problems:
        raise Invalid(*problems)
    return tuple(live.connectors[name] for name in wanted)


def spec_of(
    connector: LiveConnector,
    live: Live,
    before: DesiredConnector | None = None,
    *,
    with_secrets: bool = False,
) -> Imported:
    """The connector's spec. Its state is managed only if it is to do something else than run.

    What its spec from `before` calls sensitive stays so, and whether it is well without tasks.
    """
    sensitive = () if before is None else before.sensitive
    config = {**without_reserved(connector.config), "name": connector.name}
    named = live.password_keys.get(connector.name, frozenset()).union(sensitive)
    owned = live.ledger.connectors.get(connector.name)
    left_out = tuple(
        sorted(
            key
            for key, text in config.items()
            if not with_secrets and (is_sensitive(key, text, named) or is_mask(text))
        )
    )
    spec = DesiredConnector(
        name=connector.name,
        config={key: text for key, text in config.items() if key not in left_out},
        where=Location(""),
        state=None if connector.target is TargetState.RUNNING else connector.target,
        prevent_delete=owned is not None and owned.prevent_delete,
        ignore=tuple(f"config.{escape(key)}" for key in left_out),
        sensitive=sensitive,
        allow_zero_tasks=before is not None and before.allow_zero_tasks,
    )
    return Imported(spec, left_out)


def _problems(
    names: Iterable[str], live: Live, desired: Desired, *, again: bool
) -> Iterator[Diagnostic]:
    for name in names:
        owned, spec = live.ledger.connectors.get(name), desired.connectors.get(name)
        if name not in live.connectors:
            hint = "`connect status` lists those that are"
            yield Diagnostic(
                "import.missing", "no such connector is on the cluster", name, hint=hint
            )
        elif owned is not None and owned.project != desired.project:
            what = f"the connector belongs to project {owned.project}"
            yield Diagnostic("import.other-project", what, name)
        elif spec is not None and not again:
            what = f"the connector {name!r} has a spec already"
            hint = "--force writes it again, as it is on the cluster"
            yield Diagnostic("import.has-spec", what, spec.where, hint=hint)
