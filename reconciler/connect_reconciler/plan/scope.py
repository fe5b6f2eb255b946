"""Which connectors is a plan about? All, or those whose names `--target` and `--exclude` choose.

What is left out is neither changed nor deleted, whatever its spec says or no spec says any more. A
connector that is renamed is one, under both names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from glob import escape

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
    """Globs over names. No targets: all connectors, but for those that `exclude` matches."""

    targets: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def exactly(cls, names: Iterable[str]) -> Scope:
        """The connectors of these names."""
        return cls(tuple(escape(name) for name in dict.fromkeys(names)))

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return not (self.targets or self.exclude)

    def holds(self, names: Iterable[str]) -> bool:
        """Whether a connector of these names is in it."""
        known = tuple(names)
        wanted = not self.targets or _any(self.targets, known)
        return wanted and not _any(self.exclude, known)


def narrowed(desired: Desired, live: Live, scope: Scope) -> tuple[Desired, Live]:
    """Desired and live without what is left out, and a warning that says how much that is.

    Raises Invalid for a glob that matches no connector of the project.
    """
    if scope.whole:
        return desired, live
    groups = list(_groups(desired, live))
    problems = list(_without_match(scope, sorted(name for group in groups for name in group)))
    if problems:
        raise Invalid(*problems)
    kept = [group for group in groups if scope.holds(group)]
    names = {name for group in kept for name in group}
    targeted = warning(
        TARGETED,
        f"targeted: {len(kept)} of {len(groups)} connectors, by {_named(scope)}",
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
    """The names that are in scope, sorted. Raises Invalid for a glob that matches none."""
    known = sorted(names)
    if problems := list(_without_match(scope, known)):
        raise Invalid(*problems)
    return [name for name in known if scope.holds((name,))]


def _groups(desired: Desired, live: Live) -> Iterator[frozenset[str]]:
    """The project's connectors, each with all names that it has."""
    seen: set[str] = set()
    for spec in desired.connectors.values():
        old = {spec.renamed_from or spec.name} - desired.connectors.keys()
        group = frozenset({spec.name, *old})
        seen |= group
        yield group
    for name, owned in live.ledger.connectors.items():
        if owned.project == desired.project and name not in seen:
            yield frozenset({name})


def _without_match(scope: Scope, names: list[str]) -> Iterator[Diagnostic]:
    given = [("--target", glob) for glob in scope.targets]
    given += [("--exclude", glob) for glob in scope.exclude]
    for option, glob in given:
        if _any((glob,), names):
            continue
        near = get_close_matches(glob.strip("*?"), names, _NEAR, cutoff=0.5) or names[:_NEAR]
        hint = f"there are: {', '.join(near)}" if near else "the project has none"
        more = len(names) - len(near)
        yield Diagnostic(
            "plan.no-such-target",
            f"{option} {glob} matches no connector of the project",
            hint=f"{hint} and {more} more" if near and more else hint,
        )


def _named(scope: Scope) -> str:
    """The options that leave connectors out, for a first line."""
    return listed(_options(scope), _OPTIONS)


def _options(scope: Scope) -> Iterator[str]:
    yield from (f"--target {glob}" for glob in scope.targets)
    yield from (f"--exclude {glob}" for glob in scope.exclude)


def _any(globs: Iterable[str], names: Iterable[str]) -> bool:
    known = tuple(names)
    return any(name == glob or fnmatchcase(name, glob) for glob in globs for name in known)
