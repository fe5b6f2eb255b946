"""How many examples a property is tried with."""

from typing import Any

from hypothesis import settings

_OF = 100


def examples(count: int, **more: Any) -> settings:
    """A decorator: this many examples for each 100 that the run's profile has, which conftest.py
    says."""
    return settings(max_examples=max(1, count * settings().max_examples // _OF), **more)
