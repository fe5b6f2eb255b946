"""How many examples a property is tried with."""

from typing import Any

from hypothesis import settings

# conftest.py has the profiles; this is the one of every run that names none
_GATE = 100


def examples(count: int, **more: Any) -> settings:
    """A decorator: this many examples instead of the 100 that a run has by default. A run whose
    profile has more than 100 gets as many times more here."""
    return settings(max_examples=max(1, count * settings().max_examples // _GATE), **more)
