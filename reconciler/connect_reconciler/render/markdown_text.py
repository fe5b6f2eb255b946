"""Foreign text inside Markdown: shown as it is, and never read as Markdown, HTML or a reference.

Every character with a meaning becomes a character reference, which no parser takes for structure.
Sites turn `@name`, `#1` and addresses into links, and tell people that they were named: in prose an
empty character keeps them apart. Inside `<code>` they leave text alone.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from connect_reconciler.render.texts import long_text
from connect_specs.printable import one_line

PROSE_LENGTH_MAX = 600
CODE_LENGTH_MAX = 160

_EMPTY = "&#8203;"
_SPECIAL = re.compile(r"[!#$&*<>@\[\\\]_`{|}~]")
_LINKING = re.compile(r"[@#!~%$&](?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_SPACES = re.compile(r"(?<= ) ")


def prose(text: str, length: int = PROSE_LENGTH_MAX) -> str:
    """A text of ours that may quote what others wrote, on one line."""
    line = one_line(text)
    rest = "" if len(line) <= length else f"… ({len(line):,} characters)"
    parts, end = [], 0
    for found in _LINKING.finditer(line[:length]):
        parts += [_escaped(line[end : found.end()]), _EMPTY]
        end = found.end()
    return "".join(parts) + _escaped(line[end:length]) + rest


def code(text: str) -> str:
    """A text as it is, every space of it seen."""
    return f"<code>{_SPACES.sub('&#160;', _escaped(one_line(text)))}</code>"


def named(text: str) -> str:
    """A name of a connector, a key or the like, which is no secret; cut where it is long."""
    return code(long_text(text) if len(text) > CODE_LENGTH_MAX else text)


def hidden(text: str) -> str:
    """A comment that is not shown and cannot be ended by what is in it."""
    return f"<!-- {quote(one_line(text), safe=':/ ')} -->"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"&#{ord(found.group())};", text)
