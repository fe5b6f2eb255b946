"""One Java VM for all cases."""

from collections.abc import Iterator

import pytest

from support.connect_classes import ConnectClasses


@pytest.fixture(scope="session")
def connect_classes() -> Iterator[ConnectClasses]:
    """Kafka Connect's own classes."""
    with ConnectClasses("-Duser.timezone=UTC", "-Duser.language=en") as running:
        yield running
