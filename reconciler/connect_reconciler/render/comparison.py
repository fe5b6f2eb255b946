"""Which records would come out differently, in a sentence, as Markdown and as JSON.

Counts and names of fields only, never values: a comment on a pull request has many readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from connect_reconciler.render.markdown import hidden, named, prose
from connect_reconciler.testing.compare import Comparison
from connect_specs.counting import counted

_FIELDS_MAX: Final = 20
_LENGTH_MAX: Final = 60_000


def comparison_text(found: Comparison) -> str:
    """`17 of 1,000 records come out differently: value.amount (12), headers.source (5); 3 fail that
    did not`."""
    if not found.total:
        return "there are no records to compare"
    what = _headline(found)
    fields = _counts(found.fields)
    if fields:
        what += f": {', '.join(fields)}"
    return "; ".join((what, *_outcomes(found)))


def comparison_json(found: Comparison) -> dict[str, Any]:
    """The same counts."""
    return {
        "records": found.total,
        "different": found.different,
        "fields": dict(found.fields),
        "failing": dict(found.failing),
        "recovered": found.recovered,
        "dropped": found.dropped,
        "kept": found.kept,
        "still_failing": found.still_failing,
    }


def comparison_markdown(
    project: str,
    against: str,
    compared: Mapping[str, Comparison],
    skipped: Mapping[str, str],
) -> str:
    """A comment for a pull request. Its first line is the same each time, so that a job finds its
    earlier comment."""
    different = sum(each.different > 0 for each in compared.values())
    if not compared:
        title = "no connector's records were compared"
    elif different:
        title = f"records of {counted(different, 'connector')} come out differently"
    else:
        title = "all records come out the same"
    lines = [hidden(f"connect-test:{project}"), f"### {prose(f'Compared with {against}: {title}')}"]
    body = [_item(name, each) for name, each in compared.items()]
    body += [f"- {named(name)}: not compared: {prose(why)}" for name, why in skipped.items()]
    kept: list[str] = []
    length = 0
    for line in body:
        length += len(line) + 1
        if length > _LENGTH_MAX:
            kept.append(f"- and {len(body) - len(kept)} more")
            break
        kept.append(line)
    return "\n\n".join((*lines, *(["\n".join(kept)] if kept else []))) + "\n"


def _item(name: str, found: Comparison) -> str:
    if not found.total:
        return f"- {named(name)}: there are no records to compare"
    what = f"- {named(name)}: {_headline(found)}"
    fields = [
        f"{named(field)} ({count:,})" for field, count in list(found.fields.items())[:_FIELDS_MAX]
    ]
    fields += _more(found.fields)
    if fields:
        what += f": {', '.join(fields)}"
    return "; ".join((what, *map(prose, _outcomes(found))))


def _headline(found: Comparison) -> str:
    if found.different:
        verb = "comes" if found.different == 1 else "come"
        return f"{found.different:,} of {counted(found.total, 'record')} {verb} out differently"
    return f"all {counted(found.total, 'record')} come out the same"


def _outcomes(found: Comparison) -> Sequence[str]:
    failing = ", ".join(f"{name} ({count:,})" for name, count in found.failing.items())
    told = (
        (found.newly_failing, "fail", "fails", f"that did not, in {failing}"),
        (found.recovered, "no longer fail", "no longer fails", ""),
        (found.dropped, "newly dropped", "newly dropped", ""),
        (found.kept, "no longer dropped", "no longer dropped", ""),
        (found.still_failing, "fail", "fails", "before and after"),
    )
    return [
        f"{count:,} {one if count == 1 else many} {rest}".rstrip()
        for count, many, one, rest in told
        if count
    ]


def _counts(fields: Mapping[str, int]) -> list[str]:
    shown = [f"{name} ({count:,})" for name, count in list(fields.items())[:_FIELDS_MAX]]
    return shown + _more(fields)


def _more(fields: Mapping[str, int]) -> list[str]:
    left = len(fields) - _FIELDS_MAX
    return [f"and {counted(left, 'more field')}"] if left > 0 else []
