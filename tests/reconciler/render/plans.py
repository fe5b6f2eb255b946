"""Plans of any shape whose names, values and texts try to be something else."""

from __future__ import annotations

from hypothesis import strategies as st

from connect_reconciler.actions import (
    AlterOffsets,
    Delete,
    FieldChange,
    OffsetMove,
    UpdateConfig,
)
from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.config_values import Plain, Secret
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic

NASTY = st.sampled_from(
    [
        *(
            "`",
            "```",
            "~~~",
            "|",
            "||",
            "\n",
            "\r\n",
            "\n\n",
            "<script>alert(1)</script>",
            "<",
            ">",
        ),
        *("-->", "<!--", "--!>", "@everyone", "@org/team", "#1", "a/b#2", "!3", "&lt;", "&#64;x"),
        *("</details>", "</summary>", "</code>", "**", "__", "\\", "\\|", "[x](javascript:1)"),
        *("![i](http://x/y.png)", "https://example.com/@me", "www.example.com", "$x$", "- ", "# "),
        *("1. ", "> ", "    ", "\t", "\u202e", "\u200b", "\x00", "\ud800", "é", "😀", "  ", ""),
    ]
)
TEXT = st.lists(st.one_of(NASTY, st.text(max_size=5)), max_size=6).map("".join)
VALUE = st.one_of(TEXT.map(Plain), st.just(Secret("ab" * 32)))
EFFECTS = st.lists(TEXT, max_size=3).map(tuple)
CHANGE = st.builds(
    FieldChange,
    TEXT,
    st.none() | VALUE,
    VALUE,
    st.sampled_from(["none", "restart", "reread"]),
    EFFECTS,
)
ACTION = st.one_of(
    st.builds(Delete, connector=TEXT, reason=TEXT, effects=EFFECTS),
    st.builds(
        UpdateConfig,
        connector=TEXT,
        reason=TEXT,
        effects=EFFECTS,
        config=st.just({}),
        changes=st.lists(CHANGE, max_size=4).map(tuple),
    ),
    st.builds(
        AlterOffsets,
        connector=TEXT,
        reason=TEXT,
        pin=TEXT,
        pin_hash=TEXT,
        moves=st.builds(
            OffsetMove,
            st.just(OffsetEntry({}, None)),
            st.none(),
            TEXT,
            st.just("back"),
        ).map(lambda move: (move,)),
    ),
)
DIAGNOSTIC = st.builds(Diagnostic, TEXT, TEXT, TEXT, TEXT, TEXT)
PLAN = st.builds(
    Plan,
    TEXT,
    TEXT,
    TEXT,
    st.just(0),
    st.lists(ACTION, max_size=4).map(tuple),
    st.lists(DIAGNOSTIC, max_size=3).map(tuple),
    st.lists(DIAGNOSTIC, max_size=3).map(tuple),
    env=st.none() | TEXT,
)
