"""The world of applies and their rollbacks."""

import pytest

from support.applying import Applying
from support.rollbacks import new_world


@pytest.fixture
def world() -> Applying:
    return new_world()
