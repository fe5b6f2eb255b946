"""What `connect test` finds: results of tests, and which records would come out differently.

Results are text, JSON, and JUnit's XML, which CI systems read. Comparisons are a sentence, Markdown
and JSON: counts and names of fields only, never values, for a comment on a pull request has many
readers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final
from xml.etree import ElementTree as Xml

from connect_reconciler.render.markdown import hidden, named, prose
from connect_reconciler.render.texts import Style
from connect_reconciler.testing.check import TestResult
from connect_reconciler.testing.compare import Comparison
from connect_specs.counting import counted
from connect_specs.printable import one_line

# What XML 1.0 cannot hold
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FIELDS_MAX: Final = 20
_LENGTH_MAX: Final = 60_000


# --- tests ---


def results_text(results: Sequence[TestResult], paint: Style) -> str:
    """The tests of each file, and how many passed."""
    lines = []
    for file, group in groupby(results, key=lambda each: each.where.file):
        lines.append(one_line(file))
        for each in group:
            if not each.mismatches:
                lines.append(f"  {paint.paint('add', 'ok')}    {one_line(each.name)}")
                continue
            place = paint.paint("note", one_line(f"({each.where})"))
            lines.append(f"  {paint.paint('error', 'FAIL')}  {one_line(each.name)} {place}")
            lines += [f"          {one_line(str(mismatch))}" for mismatch in each.mismatches]
    lines.append(summary(results))
    return "\n".join(lines) + "\n"


def summary(results: Sequence[TestResult]) -> str:
    """`3 tests: 2 passed, 1 failed`."""
    failed = sum(bool(each.mismatches) for each in results)
    passed = len(results) - failed
    return f"{counted(len(results), 'test')}: {passed} passed, {failed} failed"


def results_json(results: Sequence[TestResult]) -> dict[str, Any]:
    """All tests, and how many passed."""
    failed = sum(bool(each.mismatches) for each in results)
    return {
        "passed": len(results) - failed,
        "failed": failed,
        "tests": [
            {
                "name": each.name,
                "connector": each.connector,
                "file": each.where.file,
                "line": each.where.line,
                "passed": not each.mismatches,
                "mismatches": [
                    {"path": m.path, "expected": m.expected, "found": m.found}
                    for m in each.mismatches
                ],
            }
            for each in results
        ],
    }


def results_junit(results: Sequence[TestResult]) -> str:
    """One suite for each file, one case for each test."""
    root = Xml.Element("testsuites", _totals(results))
    for file, group in groupby(results, key=lambda each: each.where.file):
        tests = list(group)
        suite = Xml.SubElement(root, "testsuite", {"name": _clean(file), **_totals(tests)})
        for each in tests:
            names = {"name": _clean(each.name), "classname": _clean(each.connector)}
            place = {"file": _clean(each.where.file), "line": str(each.where.line)}
            case = Xml.SubElement(suite, "testcase", names | place)
            if each.mismatches:
                texts = [_clean(str(mismatch)) for mismatch in each.mismatches]
                failure = Xml.SubElement(case, "failure", {"message": texts[0]})
                failure.text = "\n".join((str(each.where), *texts))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _totals(results: Sequence[TestResult]) -> dict[str, str]:
    failed = sum(bool(each.mismatches) for each in results)
    return {"tests": str(len(results)), "failures": str(failed), "errors": "0"}


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


# --- old against new ---


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
    # What matters first: the rest is cut if it is too long
    by_need = sorted(
        compared.items(),
        key=lambda each: (not each[1].newly_failing, not each[1].different, not each[1].total),
    )
    body = [_item(name, each) for name, each in by_need]
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
