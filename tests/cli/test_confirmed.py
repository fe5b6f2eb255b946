"""The question before something is changed."""

from __future__ import annotations

import pytest
import typer

from connect_reconciler.cli.output import confirmed


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
