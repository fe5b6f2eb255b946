"""Results, then what happened to files; help and explanations on terminals; and the question."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import typer

from connect_reconciler.apply.report import Waiting
from connect_reconciler.cli import plan_output
from connect_reconciler.cli.options import PlanForms
from connect_reconciler.cli.output import confirmed, with_hanging_indent
from connect_reconciler.cli.session import Invocation
from connect_reconciler.cli.terminal import ProgressLines
from connect_reconciler.model.live import Live
from connect_specs.plain_text import table
from support.command import Command
from support.plans import plan_with_everything

EFFECT = "    → its offsets stay: a new connector continues from them\n"
PAINTED = "    \x1b[2m→ its offsets stay: a new connector continues from them\x1b[0m\n"


@pytest.mark.parametrize("line", [EFFECT, PAINTED])
def test_an_explanation_is_broken_under_its_own_text(line: str) -> None:
    lines = with_hanging_indent(line, 40).splitlines()
    assert len(lines) == 2
    assert lines[0].lstrip("\x1b[2m ").startswith("→ its offsets stay: a new")
    assert lines[1].startswith("      continues from them")


@pytest.mark.parametrize(
    ("line", "width"),
    [
        (EFFECT, None),
        (EFFECT, 80),
        ("    → 日本 日本\n", 15),
        (PAINTED, len(EFFECT) - 1),
        ('    ~ config: "a value that is to be copied as it is" → "another"\n', 20),
        ("    → averylongwordthatfitsnowhere\n", 10),
    ],
)
def test_other_lines_stay_as_they_are(line: str, width: int | None) -> None:
    assert with_hanging_indent(line, width) == line


def test_wide_characters_take_two_columns() -> None:
    """As terminals draw them: of East Asia, emoji, and accents on the character before."""
    drawn = table(["NAME", "X"], [["日本", "1"], ["😀", "2"], ["cafe\u0301s", "3"], ["アa", "4"]])
    assert drawn.splitlines() == [
        "NAME   X",
        "日本   1",
        "😀     2",
        "cafe\u0301s  3",
        "アa    4",
    ]


def test_a_terminal_that_is_gone_ends_no_apply() -> None:
    """The trap: a job outlives its terminal, and ends in the middle of an action."""

    def gone(text: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for lines in (ProgressLines(gone), ProgressLines(lambda text: None, gone)):
        lines(Waiting("a", "it runs"))


def test_a_plan_is_shown_before_its_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(plan_output, "result", lambda text: said.append("the plan"))
    monkeypatch.setattr(plan_output, "progress", said.append)
    page = tmp_path / "plan.html"
    forms = PlanForms(html=page)
    plan_output.show_and_save(plan_with_everything(), Invocation(tmp_path), forms, Live({}), None)
    assert said == ["the plan", f"page written to {page}"]


@pytest.mark.parametrize(
    ("answers", "agrees"),
    [(["y"], True), (["YES "], True), (["n"], False), ([""], False), (["apply", "y"], True)],
    ids=str,
)
def test_only_yes_agrees(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: list[str],
    agrees: bool,
) -> None:
    given = iter(answers)
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: next(given))
    assert confirmed("Apply to orders?") is agrees
    assert capsys.readouterr().err == "please answer y or n\n" * (len(answers) - 1)


def test_version_and_short_help(connect: Command) -> None:
    shown = connect("--version")
    assert (shown.returncode, shown.stdout) == (0, connect("version").stdout)
    for words in ([], ["plan"], ["offsets"], ["offsets", "list"]):
        short, long = connect(*words, "-h"), connect(*words, "--help")
        assert (short.returncode, short.stdout) == (0, long.stdout)
    assert "130 interrupted" in connect("-h").stdout
    assert "Documentation: " in connect("-h").stdout
