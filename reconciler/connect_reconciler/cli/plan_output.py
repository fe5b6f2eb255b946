"""A plan on its way out: to a terminal, as JSON, or into a file for a later apply."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from connect_reconciler.cli.output import colour, progress, result, result_json
from connect_reconciler.plan.plan_file import check_saved, dump_plan, load_plan
from connect_reconciler.render.human import render_plan
from connect_reconciler.render.plan_json import render_plan_json
from connect_reconciler.render.style import style
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.text_files import read_text

if TYPE_CHECKING:
    from connect_reconciler.plan.plan import Plan


def show(plan: Plan, *, as_json: bool) -> None:
    """The plan as a verb's result."""
    if as_json:
        result_json(render_plan_json(plan))
    else:
        result(render_plan(plan, style(colour=colour(sys.stdout))))


def save(plan: Plan, file: Path) -> None:
    """Writes a plan file, readable by its owner only. Raises Invalid."""
    _ensure_secrets_can_be_told_apart(plan)
    unfinished = file.with_name(f"{file.name}.new")
    try:
        unfinished.unlink(missing_ok=True)
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(dump_plan(plan))
        unfinished.replace(file)
    except OSError as error:
        what = "the plan cannot be written there"
        why = error.strerror or type(error).__name__
        raise Invalid(Diagnostic("plan-file.unwritable", what, Location(str(file)), why)) from error
    progress(f"saved to {file}; `connect apply` with that file does exactly this, or refuses")


def read_saved(file: Path) -> Plan:
    """The plan in a file. Raises Invalid."""
    plan = load_plan(read_text(file, file.name), file.name)
    _ensure_secrets_can_be_told_apart(plan)
    return plan


def _ensure_secrets_can_be_told_apart(plan: Plan) -> None:
    problems = check_saved(plan)
    if problems:
        raise Invalid(*problems)
