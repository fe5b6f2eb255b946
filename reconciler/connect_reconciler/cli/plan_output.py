"""A plan on its way out: to a terminal, as JSON, or into a file for a later apply."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

from connect_reconciler.cli.output import colour, progress, result, result_json
from connect_reconciler.cli.plan_forms import Warned
from connect_reconciler.plan.plan_file.file import (
    check_saved,
    dump_plan,
    load_plan,
    without_key_yet,
)
from connect_reconciler.render.human import render_plan
from connect_reconciler.render.plan_json import render_plan_json
from connect_reconciler.render.style import style
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.text_files import read_text

if TYPE_CHECKING:
    from connect_reconciler.cli.invocation import Invocation
    from connect_reconciler.cli.plan_forms import Forms
    from connect_reconciler.plan.live import Live
    from connect_reconciler.plan.plan import Plan


def told_and_kept(
    plan: Plan, call: Invocation, forms: Forms, live: Live, options: Sequence[str] = ()
) -> None:
    """The plan as a verb's result, and in the files that it is to go to; `options` are those that
    an apply of such a file needs. Raises Invalid."""
    if forms.out is not None and not plan.errors:
        ensure_secrets_can_be_told_apart(plan, live)
        plan = without_key_yet(plan)
    if forms.html is not None:
        write_page(plan, call.path(forms.html))
    if forms.out is not None and not plan.errors:
        save(plan, call, forms.out, options)
    whole = where_whole(forms.out, forms.html)
    tell(
        plan,
        as_json=forms.as_json,
        as_markdown=forms.as_markdown,
        whole=whole,
        warned=forms.warned,
    )


def tell(
    plan: Plan,
    *,
    as_json: bool = False,
    as_markdown: bool = False,
    whole: str = "",
    warned: Warned = Warned.CHANGES,
) -> None:
    """The plan as a verb's result. `whole` says where all of it is, for Markdown that is cut.
    JSON has all warnings."""
    everything = warned is Warned.ALL
    if as_json:
        result_json(render_plan_json(plan))
    elif as_markdown:
        from connect_reconciler.render.markdown import render_markdown

        result(render_markdown(plan, whole, all_warnings=everything))
    else:
        result(render_plan(plan, style(colour=colour(sys.stdout)), all_warnings=everything))


def where_whole(saved: Path | None, page: Path | None) -> str:
    """Where a reader finds all of a plan."""
    places = [f"the page {page}"] if page else []
    places += [f"connect show {saved}"] if saved else []
    return ", or ".join(places) or "connect plan"


def write_page(plan: Plan, file: Path) -> None:
    """Writes the plan as a page. Raises Invalid."""
    from connect_reconciler.render.html import render_html

    _write(file, render_html(plan))
    progress(f"page written to {file}")


def save(plan: Plan, call: Invocation, file: Path, options: Sequence[str] = ()) -> None:
    """Writes a plan file, and tells the command that applies it. Raises Invalid."""
    from connect_reconciler.cli.applying.running import base_of

    _write(call.path(file), dump_plan(plan))
    verb = ("rollback", plan.rolls_back) if plan.rolls_back else ("apply",)
    apply = join(("connect", *base_of(call, call.project().secrets), *verb, str(file), *options))
    progress(f"saved: `{apply}` does exactly this, or refuses")


def _write(file: Path, text: str) -> None:
    """The whole file or none, readable by its owner only: configs are nobody else's business."""
    unfinished = file.with_name(f"{file.name}.new")
    try:
        unfinished.unlink(missing_ok=True)
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        unfinished.replace(file)
    except OSError as error:
        what = "the plan cannot be written there"
        why = error.strerror or type(error).__name__
        raise Invalid(Diagnostic("plan-file.unwritable", what, Location(str(file)), why)) from error


def read_plan(file: Path) -> Plan:
    """The plan in a file. Raises Invalid."""
    return load_plan(read_text(file, file.name), file.name)


def ensure_secrets_can_be_told_apart(plan: Plan, live: Live) -> None:
    """Raises Invalid for a plan whose file could not, though the project has applied before."""
    problems = check_saved(plan, key_comes=live.key_comes)
    if problems:
        raise Invalid(*problems)
