"""Quotes what a command told as code in Markdown: quoted.py FILE [LENGTH] writes it to stdout.

Four spaces before each line: nothing in it can end the quotation. Only its last LENGTH characters.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(file: str, length: str = "20000") -> None:
    """Writes the quotation."""
    text = Path(file).read_text(encoding="utf-8", errors="replace")
    if len(text) > int(length):
        text = "…" + text[-int(length) :]
    # Every line end that a renderer may know, a lone carriage return too
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.write("".join(f"    {line}\n" for line in text.splitlines()))


if __name__ == "__main__":
    main(*sys.argv[1:])
