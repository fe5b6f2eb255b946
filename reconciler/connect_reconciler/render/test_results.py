"""Results of `*.test.yaml`: as text, as JSON and as JUnit's XML, which CI systems read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final
from xml.etree import ElementTree as Xml

from connect_reconciler.render.texts import Style
from connect_reconciler.testing.check import Mismatch
from connect_specs.counting import counted
from connect_specs.diagnostics import Location
from connect_specs.printable import one_line

# What XML 1.0 cannot hold
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test; without mismatches it passed. Texts are without secrets."""

    # for pytest, which takes every class of such a name for tests
    __test__ = False

    name: str
    connector: str
    where: Location
    mismatches: tuple[Mismatch, ...] = ()


def results_text(results: Sequence[TestResult], paint: Style) -> str:
    """The tests of each file, and how many passed."""
    lines = []
    for file, group in groupby(results, key=lambda each: each.where.file):
        lines.append(one_line(file))
        for each in group:
            if not each.mismatches:
                lines.append(f"  {paint.paint('add', 'ok')}    {one_line(each.name)}")
                continue
            place = paint.paint("note", f"({each.where})")
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
    root = Xml.Element("testsuites", _counts(results))
    for file, group in groupby(results, key=lambda each: each.where.file):
        tests = list(group)
        suite = Xml.SubElement(root, "testsuite", {"name": _clean(file), **_counts(tests)})
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


def _counts(results: Sequence[TestResult]) -> dict[str, str]:
    failed = sum(bool(each.mismatches) for each in results)
    return {"tests": str(len(results)), "failures": str(failed), "errors": "0"}


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
