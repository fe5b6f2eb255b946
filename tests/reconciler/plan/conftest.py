"""The scenario that a test of plans is parametrized with."""

import pytest

from support.scenarios import Scenario, scenario_of


@pytest.fixture
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return scenario_of(request.param)
