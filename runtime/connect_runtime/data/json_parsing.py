"""Parses JSON as Connect's parser does, which takes more than the standard allows.

It takes UTF-16 and UTF-32, a byte order mark, and numbers with leading zeros; no bytes are null.
What follows the first value is an error here; Connect ignores it.
"""

from __future__ import annotations

import codecs
import json
import re
from decimal import Decimal
from typing import Any, Final

import orjson

from connect_runtime.api import DataError

# matches strings, also one that does not end, in order to leave them out. Possessive: each byte is
# read once
_LEADING_ZEROS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|(?<![0-9.eE+])0+(?=[0-9])')
_SPACE: Final = b" \t\r\n"
_MARKS: Final = (codecs.BOM_UTF8, codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)


def parse(data: bytes) -> Any:
    """Parses JSON. Raises `DataError`."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as first:
        try:
            return orjson.loads(_standard(data))
        except ValueError:
            # its reason alone: the error itself holds the document
            reason = first.msg
        text = "Converting byte[] to Kafka Connect data failed due to serialization error: "
        raise DataError(text) from DataError(reason)


def parse_digits(data: bytes) -> Any:
    """Parses JSON that `parse` has parsed, with fractions as Decimals and integers of any size."""
    return json.loads(_standard(data), parse_float=Decimal)


def _standard(data: bytes) -> bytes:
    """Returns the JSON that this stands for, in UTF-8. Raises ValueError for other bytes."""
    text = data.decode(json.detect_encoding(data)).encode()
    if data in _MARKS:
        raise ValueError("a byte order mark and nothing else")
    if not text.strip(_SPACE):
        return b"null"
    return _LEADING_ZEROS.sub(lambda found: found[0] if found[0].startswith(b'"') else b"", text)
