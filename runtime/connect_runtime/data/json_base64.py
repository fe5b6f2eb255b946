"""Reads base64 as Jackson does.

Blanks may stand between groups of four characters, as where MIME or MySQL's TO_BASE64 ends a line.
A group that ends with `=` need not be the last one.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Final

_BLANKS: Final = dict.fromkeys(range(0x21))
_GROUP: Final = "[A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]{2}|[A-Za-z0-9+/]=|==)"
_GROUPS: Final = re.compile(rf"[\0- ]*+(?:{_GROUP}[\0- ]*+)*+")
_PADDED: Final = re.compile(r"[A-Za-z0-9+/]+=*")


def base64_data(text: str) -> bytes:
    """Returns the bytes. Raises ValueError."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        pass
    else:
        # Python takes more padding than there may be
        if len(data) == len(text) / 4 * 3 - text.count("="):
            return data
    if _GROUPS.fullmatch(text) is None:
        raise ValueError("not base64")
    return b"".join(map(binascii.a2b_base64, _PADDED.findall(text.translate(_BLANKS))))
