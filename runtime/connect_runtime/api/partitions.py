"""Distributes what a connector reads over its tasks (Connect's `ConnectorUtils`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def group_partitions(elements: Sequence[T], groups: int) -> list[list[T]]:
    """Returns `groups` lists of neighbours, whose sizes differ by one at most, longer ones first.
    Raises ValueError unless `groups` is positive."""
    if groups <= 0:
        raise ValueError("Number of groups must be positive.")
    size, longer = divmod(len(elements), groups)
    starts = [i * size + min(i, longer) for i in range(groups + 1)]
    return [list(elements[a:b]) for a, b in pairwise(starts)]
