"""What does a rollback leave alone? What `lifecycle.ignore` names, now or at that apply. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connect_reconciler.plan.diff import ignores
from connect_reconciler.plan.journal import Before
from connect_reconciler.plan.live import Live, LiveConnector
from connect_reconciler.plan.rollback.changed_since import meant_target
from connect_reconciler.plan.secrets.sensitive import fingerprint
from connect_reconciler.plan.values import Plain, Value
from connect_specs.desired import Desired
from connect_specs.diagnostics import Diagnostic


def ignored_globs(
    before: Mapping[str, Before], files: Desired, live: Live
) -> dict[str, tuple[str, ...]]:
    """The globs by connector. None for one that is neither there nor was renamed: it is created
    again as it was.

    A connector that the apply renamed is one, under both names.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, past in before.items():
        names = {name, past.renamed_from or name}
        names |= {new for new, each in before.items() if each.renamed_from == name}
        if names.isdisjoint(live.connectors):
            continue
        globs: list[str] = []
        for each in sorted(names):
            globs += files.connectors[each].ignore if each in files.connectors else ()
            globs += before[each].ignore if each in before else ()
        found[name] = tuple(dict.fromkeys(globs))
    return found


def stays_ignored(
    before: Mapping[str, Before], ignore: Mapping[str, tuple[str, ...]], live: Live
) -> Iterator[Diagnostic]:
    """A warning for each connector of which the rollback leaves something as it is now."""
    for name, past in sorted(before.items()):
        connector = live.connectors.get(name)
        if connector is None or past.config is None:
            continue
        globs = ignore.get(name, ())
        kept = [
            key
            for key in sorted(past.config.keys() | connector.config.keys())
            if ignores(globs, f"config.{key}")
            and not _same(past.config.get(key), connector, key, live)
        ]
        target = meant_target(live.ledger.connectors.get(name), connector)
        if past.target is not target and ignores(globs, "state"):
            kept.append("the state")
        if kept:
            what = f"lifecycle.ignore leaves these of {name} as they are now: {', '.join(kept)}"
            yield Diagnostic("rollback.ignored", what, name)


def _same(then: Value | None, connector: LiveConnector, key: str, live: Live) -> bool:
    now = connector.config.get(key)
    if then is None or now is None:
        return then is None and now is None
    if isinstance(then, Plain):
        return then.text == now
    return fingerprint(live.ledger.fingerprint_key, connector.name, key, now) == then.fingerprint
