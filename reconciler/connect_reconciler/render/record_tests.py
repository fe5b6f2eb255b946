"""Results of `connect test`: of tests, and numbers of records that would come out differently.

Results are text, JSON, and JUnit's XML, which CI systems read. Comparisons are a sentence, Markdown
and JSON: counts and names of fields only, never values, for a comment on a pull request has many
readers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final
from xml.etree import ElementTree as Xml

from connect_reconciler.render.markdown import hidden, lines_within, named, prose
from connect_reconciler.render.texts import Style
from connect_reconciler.testing.comparison import Comparison, TestResult
from connect_specs.plain_text import counted, one_line

# Characters that XML 1.0 cannot hold
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FIELDS_MAX: Final = 20
_LENGTH_MAX: Final = 60_000


# --- tests ---


def results_text(results: Sequence[TestResult], paint: Style) -> str:
    """Returns the tests of each file, and their numbers."""
    lines = []
    for file, tests in groupby(results, key=_file):
        lines.append(one_line(file))
        for test in tests:
            name = one_line(test.name)
            if not test.mismatches:
                lines.append(f"  {paint.paint('add', 'ok')}    {name}")
                continue
            place = paint.paint("note", one_line(f"({test.location})"))
            lines.append(f"  {paint.paint('error', 'FAIL')}  {name} {place}")
            lines += [f"          {one_line(str(mismatch))}" for mismatch in test.mismatches]
    return "\n".join([*lines, summary(results)]) + "\n"


def summary(results: Sequence[TestResult]) -> str:
    """Returns `3 tests: 2 passed, 1 failed`."""
    failed = _failed(results)
    passed = len(results) - failed
    return f"{counted(len(results), 'test')}: {passed} passed, {failed} failed"


def results_json(results: Sequence[TestResult]) -> dict[str, Any]:
    """Returns all tests, and their numbers."""
    failed = _failed(results)
    return {
        "passed": len(results) - failed,
        "failed": failed,
        "tests": [
            {
                "name": test.name,
                "connector": test.connector,
                "file": test.location.file,
                "line": test.location.line,
                "passed": not test.mismatches,
                "mismatches": [
                    {"path": m.path, "expected": m.expected, "found": m.actual}
                    for m in test.mismatches
                ],
            }
            for test in results
        ],
    }


def results_junit(results: Sequence[TestResult]) -> str:
    """Returns one suite for each file, with one case for each test."""
    root = Xml.Element("testsuites", _totals(results))
    for file, group in groupby(results, key=_file):
        tests = list(group)
        suite = Xml.SubElement(root, "testsuite", {"name": _clean(file), **_totals(tests)})
        for test in tests:
            names = {"name": _clean(test.name), "classname": _clean(test.connector)}
            place = {"file": _clean(test.location.file), "line": str(test.location.line)}
            case = Xml.SubElement(suite, "testcase", names | place)
            if test.mismatches:
                texts = [_clean(str(mismatch)) for mismatch in test.mismatches]
                failure = Xml.SubElement(case, "failure", {"message": texts[0]})
                failure.text = "\n".join((str(test.location), *texts))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _file(test: TestResult) -> str:
    return test.location.file


def _failed(results: Sequence[TestResult]) -> int:
    return sum(bool(test.mismatches) for test in results)


def _totals(results: Sequence[TestResult]) -> dict[str, str]:
    return {"tests": str(len(results)), "failures": str(_failed(results)), "errors": "0"}


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


# --- comparisons ---


def comparison_text(
    comparison: Comparison,
    name: Callable[[str], str] = str,
    sentence: Callable[[str], str] = str,
) -> str:
    """Returns `17 of 1,000 records come out differently: value.amount (12), headers.source (5); 3
    fail that did not`. `name` renders names of fields, and `sentence` the outcomes."""
    if not comparison.total:
        return "there are no records to compare"
    fields = list(comparison.fields.items())
    counts = [f"{name(field)} ({count:,})" for field, count in fields[:_FIELDS_MAX]]
    if len(fields) > _FIELDS_MAX:
        counts.append(f"and {counted(len(fields) - _FIELDS_MAX, 'more field')}")
    head = _headline(comparison) + (f": {', '.join(counts)}" if counts else "")
    return "; ".join((head, *map(sentence, _outcomes(comparison))))


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Returns the same counts."""
    return {
        "records": comparison.total,
        "different": comparison.different,
        "fields": dict(comparison.fields),
        "failing": dict(comparison.failing),
        "recovered": comparison.recovered,
        "dropped": comparison.dropped,
        "kept": comparison.undropped,
        "still_failing": comparison.still_failing,
    }


def comparison_markdown(
    project: str,
    against: str,
    comparisons: Mapping[str, Comparison],
    skipped: Mapping[str, str],
) -> str:
    """Returns a comment for a pull request. Its first line is the same each time, so that a job
    finds its earlier comment."""
    different = sum(comparison.different > 0 for comparison in comparisons.values())
    if not comparisons:
        title = "no connector's records were compared"
    elif different:
        title = f"records of {counted(different, 'connector')} come out differently"
    else:
        title = "all records come out the same"
    head = [hidden(f"connect-test:{project}"), f"### {prose(f'Compared with {against}: {title}')}"]
    # The most important first: the comment is cut if it is too long
    by_need = sorted(
        comparisons.items(),
        key=lambda item: (not item[1].newly_failing, not item[1].different, not item[1].total),
    )
    lines = [
        f"- {named(name)}: {comparison_text(result, named, prose)}" for name, result in by_need
    ]
    lines += [f"- {named(name)}: not compared: {prose(reason)}" for name, reason in skipped.items()]
    fitting = lines_within(lines, _LENGTH_MAX)
    if missing := len(lines) - len(fitting):
        fitting.append(f"- and {missing} more")
    return "\n\n".join((*head, *(["\n".join(fitting)] if fitting else []))) + "\n"


def _headline(comparison: Comparison) -> str:
    records = counted(comparison.total, "record")
    if comparison.different:
        verb = "comes" if comparison.different == 1 else "come"
        return f"{comparison.different:,} of {records} {verb} out differently"
    return f"all {records} come out the same"


def _outcomes(comparison: Comparison) -> Sequence[str]:
    failing = ", ".join(f"{name} ({count:,})" for name, count in comparison.failing.items())
    outcomes = (
        (comparison.newly_failing, "fail", "fails", f"that did not, in {failing}"),
        (comparison.recovered, "no longer fail", "no longer fails", ""),
        (comparison.dropped, "newly dropped", "newly dropped", ""),
        (comparison.undropped, "no longer dropped", "no longer dropped", ""),
        (comparison.still_failing, "fail", "fails", "before and after"),
    )
    return [
        f"{count:,} {singular if count == 1 else plural} {addition}".rstrip()
        for count, plural, singular, addition in outcomes
        if count
    ]
