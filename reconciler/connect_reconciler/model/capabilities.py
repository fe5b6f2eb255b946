"""What does each version of Connect's REST API know? A table, and how versions are written.

Versions that cannot be read are taken for new ones. Pure.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TypeAlias

Version: TypeAlias = tuple[int, int]

OLDEST: Version = (3, 6)
NEWEST_TRIED: Version = (4, 3)

_TASKS_FOLLOW: Version = (3, 9)
_NUMBERS = re.compile(r"\s*(\d+)\.(\d+)")
# Confluent's 7.6.1-ccs is Apache's 3.6.1
_CONFLUENT = re.compile(r"-(ccs|ce|cp)\d*", re.IGNORECASE)
_CONFLUENT_AHEAD = 4


class Feature(Enum):
    """What came after the oldest version that is supported, with the version that brought it."""

    INITIAL_STATE = (3, 7)
    PATCH_CONFIG = (3, 8)
    HEALTH = (3, 9)


def parse(version: str) -> Version | None:
    """Apache's major and minor version; None where the text does not begin with numbers."""
    found = _NUMBERS.match(version)
    if found is None:
        return None
    major, minor = int(found[1]), int(found[2])
    if _CONFLUENT.search(version) and major > _CONFLUENT_AHEAD:
        major -= _CONFLUENT_AHEAD
    return major, minor


def knows(version: str, feature: Feature) -> bool:
    """Whether a cluster that says it is of this version has the feature."""
    found = parse(version)
    return found is None or found >= feature.value


def tasks_follow(version: str) -> bool:
    """Whether each new config makes task configs be written anew, also the same ones: before
    KAFKA-9228 those tasks went on."""
    found = parse(version)
    return found is None or found >= _TASKS_FOLLOW


def too_old(version: str) -> bool:
    """Whether offsets cannot be altered there."""
    found = parse(version)
    return found is not None and found < OLDEST
