"""A plan as one HTML page to fold, filter, search and print. It loads nothing.

The page's content security policy allows only its own script and style, by their hashes: nothing
in a plan could run, even if it were not escaped.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from connect_reconciler.actions.plan import Plan, summarize
from connect_reconciler.model.config_values import Plain, Value
from connect_reconciler.render.blocks import (
    CONSEQUENCES,
    about_unchanged,
    blocks,
    effects,
    harmless,
    kind_words,
    reason_beside,
    shown_warnings,
    summary_line,
    titles,
)
from connect_reconciler.render.texts import VALUE_LENGTH_MAX, sides, sign
from connect_specs.plain_text import lines_of, one_line, time_text


def render_html(plan: Plan) -> str:
    """Returns the page as text."""
    environment = _environment()
    style, script = _source(environment, "plan.css"), _source(environment, "plan.js")
    return environment.get_template("plan.html.j2").render(
        plan=plan,
        summary=summary_line(plan),
        counts=summarize(plan),
        changed=shown_warnings(plan, everything=False),
        set_aside=about_unchanged(plan),
        sections=titles(blocks(plan)),
        observed=time_text(plan.observed_ms).replace("T", " ").removesuffix("Z"),
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none';"
        f" style-src {_hash(style)}; script-src {_hash(script)}",
        style=style,
        script=script,
    )


@cache
def _environment() -> Environment:
    """Returns the templates, with the words that all renderings share."""
    environment = Environment(
        loader=PackageLoader("connect_reconciler.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(line=one_line, text=lines_of)
    environment.globals.update(
        consequences=CONSEQUENCES,
        effects=effects,
        harmless=harmless,
        kind_words=kind_words,
        reason_beside=reason_beside,
        long=_long,
        sides=sides,
        sign=sign,
    )
    return environment


def _source(environment: Environment, name: str) -> Markup:
    """Returns a file of ours that goes into the page as it is."""
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0])


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _long(value: Value | None) -> str:
    """Returns the full text of a value that is cut elsewhere; empty for shorter ones."""
    return value.text if isinstance(value, Plain) and len(value.text) > VALUE_LENGTH_MAX else ""
