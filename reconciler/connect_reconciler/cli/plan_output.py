"""Shows a plan on stdout, and writes it to a page or to a plan file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

from connect_reconciler.cli.options import Warned
from connect_reconciler.cli.output import (
    colour,
    progress,
    result,
    result_json,
    width,
    with_hanging_indent,
)
from connect_reconciler.cli.project_files import write_file
from connect_reconciler.plan.checks.hidden_values import ensure_typed
from connect_reconciler.render.plan_file import (
    dump_plan,
    ensure_secrets_have_fingerprints,
    load_plan,
    render_plan_json,
    without_key_yet,
)
from connect_reconciler.render.plan_text import render_plan
from connect_reconciler.render.texts import style
from connect_specs.text_files import read_text

if TYPE_CHECKING:
    from connect_reconciler.actions.plan import Plan
    from connect_reconciler.cli.options import PlanForms
    from connect_reconciler.cli.session import Invocation
    from connect_reconciler.model.live import Live

_UNWRITABLE = "plan-file.unwritable"
# Plans hold parts of configs
_MODE = 0o600


def show_and_save(
    plan: Plan,
    call: Invocation,
    forms: PlanForms,
    live: Live,
    out: Path | None,
    options: Sequence[str] = (),
) -> None:
    """Shows the plan as a verb's result and writes the files that were asked for: to `out` the plan
    file.

    `options` are those that an apply of the plan file needs. Raises Invalid.
    """
    messages: list[str] = []
    saves = out is not None and not plan.errors
    if saves:
        ensure_secrets_have_fingerprints(plan, key_comes=live.key_comes)
        ensure_typed(live, {action.group for action in plan.actions}, "no plan is saved")
        plan = without_key_yet(plan)
    if forms.html is not None:
        messages.append(write_page(plan, call.path(forms.html)))
    if out is not None and saves:
        messages.append(_save(plan, call, out, options))
    show_plan(plan, forms, full_plan=_full_plan(out, forms.html))
    # After the plan: on a terminal, the next step stands last
    for message in messages:
        progress(message)


def show_plan(plan: Plan, forms: PlanForms, *, full_plan: str = "") -> None:
    """Shows the plan as a verb's result; JSON has all warnings.

    `full_plan` is where to find the whole plan, for Markdown that is cut.
    """
    everything = forms.warnings is Warned.ALL
    if forms.as_json:
        result_json(render_plan_json(plan))
    elif forms.as_markdown:
        from connect_reconciler.render.plan_markdown import render_markdown

        result(render_markdown(plan, full_plan, all_warnings=everything))
    else:
        text = render_plan(plan, style(colour=colour(sys.stdout)), all_warnings=everything)
        result(with_hanging_indent(text, width()))


def _full_plan(saved: Path | None, page: Path | None) -> str:
    places = [f"the page {page}"] if page else []
    places += [f"connect show {saved}"] if saved else []
    return ", or ".join(places) or "connect plan"


def write_page(plan: Plan, file: Path) -> str:
    """Writes the plan as an HTML page; returns the message. Raises Invalid."""
    from connect_reconciler.render.plan_html import render_html

    write_file(file, render_html(plan), "the page cannot be written", _UNWRITABLE, mode=_MODE)
    return f"page written to {file}"


def _save(plan: Plan, call: Invocation, file: Path, options: Sequence[str]) -> str:
    """Writes a plan file; returns the command that applies it."""
    from connect_reconciler.cli.apply_report import base_of

    problem = "the plan file cannot be written"
    write_file(call.path(file), dump_plan(plan), problem, _UNWRITABLE, mode=_MODE)
    verb = ("rollback", plan.rolls_back) if plan.rolls_back else ("apply",)
    apply = join(("connect", *base_of(call, call.project().secrets), *verb, str(file), *options))
    return f"saved: `{apply}` applies exactly this plan, or refuses"


def read_plan(file: Path) -> Plan:
    """Returns the plan in a file. Raises Invalid."""
    return load_plan(read_text(file, file.name), file.name)
