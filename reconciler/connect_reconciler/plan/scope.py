"""The connectors that a plan is about: all, or those that `--target` and `--exclude` choose.

Connectors out of scope are neither changed nor deleted, with or without a spec. A connector that is
renamed is one connector with two names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from glob import escape
from typing import Final

from connect_reconciler.actions.plan import TARGETED
from connect_reconciler.model.live import Live
from connect_specs.desired import Desired
from connect_specs.diagnostics import Diagnostic, Invalid, warning
from connect_specs.plain_text import listed

# Options that a first line names
_OPTIONS = 3
_NEAR = 5


@dataclass(frozen=True, slots=True)
class Scope:
    """Globs over names. Without targets all connectors match, but for those to `exclude`."""

    targets: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def exactly(cls, names: Iterable[str]) -> Scope:
        """Returns the scope of the connectors with these names."""
        return cls(tuple(escape(name) for name in dict.fromkeys(names)))

    @property
    def whole(self) -> bool:
        """Returns True if no connector is left out."""
        return not (self.targets or self.exclude)

    def matches(self, names: Collection[str]) -> bool:
        """Returns True if a connector with these names is in scope."""
        targeted = not self.targets or _any_matches(self.targets, names)
        return targeted and not _any_matches(self.exclude, names)


ALL: Final = Scope()


def in_scope(desired: Desired, live: Live, scope: Scope) -> tuple[Desired, Live]:
    """Returns desired and live without connectors out of scope, and a warning that counts them.

    Raises Invalid for a glob that matches no connector of the project.
    """
    if scope.whole:
        return desired, live
    groups = list(_names_by_connector(desired, live))
    problems = list(_without_match(scope, sorted(name for group in groups for name in group)))
    if problems:
        raise Invalid(*problems)
    matching = [group for group in groups if scope.matches(group)]
    names = {name for group in matching for name in group}
    targeted = warning(
        TARGETED,
        f"targeted: {len(matching)} of {len(groups)} connectors,"
        f" by {listed(_options(scope), _OPTIONS)}",
        why=" and ".join(_options(scope)) + " leaves out the others: they stay as they are",
    )
    owners = {
        name: owned
        for name, owned in live.ledger.connectors.items()
        if name in names or owned.project != desired.project
    }
    specs = {name: spec for name, spec in desired.connectors.items() if name in names}
    return replace(desired, connectors=specs), replace(
        live,
        ledger=replace(live.ledger, connectors=owners),
        warnings=(targeted, *live.warnings),
    )


def chosen(names: Iterable[str], scope: Scope) -> list[str]:
    """Returns the names in scope, sorted. Raises Invalid for a glob that matches none of them."""
    candidates = sorted(names)
    if problems := list(_without_match(scope, candidates)):
        raise Invalid(*problems)
    return [name for name in candidates if scope.matches((name,))]


def _names_by_connector(desired: Desired, live: Live) -> Iterator[frozenset[str]]:
    """Yields all names of each connector of the project."""
    in_specs: set[str] = set()
    for spec in desired.connectors.values():
        renamed = {spec.renamed_from or spec.name} - desired.connectors.keys()
        names = frozenset({spec.name, *renamed})
        in_specs |= names
        yield names
    for name, owned in live.ledger.connectors.items():
        if owned.project == desired.project and name not in in_specs:
            yield frozenset({name})


def _without_match(scope: Scope, names: list[str]) -> Iterator[Diagnostic]:
    options = [("--target", glob) for glob in scope.targets]
    options += [("--exclude", glob) for glob in scope.exclude]
    for option, glob in options:
        if _any_matches((glob,), names):
            continue
        near = get_close_matches(glob.strip("*?"), names, _NEAR, cutoff=0.5) or names[:_NEAR]
        hint = f"there are: {', '.join(near)}" if near else "the project has none"
        more = len(names) - len(near)
        yield Diagnostic(
            "plan.no-such-target",
            f"{option} {glob} matches no connector of the project",
            hint=f"{hint} and {more} more" if near and more else hint,
        )


def _options(scope: Scope) -> Iterator[str]:
    yield from (f"--target {glob}" for glob in scope.targets)
    yield from (f"--exclude {glob}" for glob in scope.exclude)


def _any_matches(globs: Iterable[str], names: Collection[str]) -> bool:
    return any(name == glob or fnmatchcase(name, glob) for glob in globs for name in names)
