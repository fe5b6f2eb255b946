"""Matches a pattern of a config, in a process of its own.

Python's matcher holds up all threads of its process, and there are patterns that take it years:
`(a|aa)+b`, and sixty times the letter a. One request would end the runtime.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final

import orjson

LIMIT_S: Final = 5.0
_MATCH: Final = """
import json, re, sys
pattern, flags, text = json.load(sys.stdin)
sys.exit(re.compile(pattern, flags).fullmatch(text) is None)
"""


def matches(pattern: re.Pattern[str], text: str) -> bool:
    """Whether the pattern matches the whole text. Raises TimeoutError if that takes too long."""
    given = orjson.dumps([pattern.pattern, pattern.flags, text])
    command = [sys.executable, "-I", "-S", "-c", _MATCH]
    try:
        done = subprocess.run(
            command, input=given, timeout=LIMIT_S, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return done.returncode == 0
