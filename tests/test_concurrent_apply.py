"""Two applies at once: the second is told who holds the lease; a killed holder's is freed."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker import BrokerAddress
from support.rig import Rig


@pytest.fixture
def rig(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Rig]:
    """A project on the tests' Kafka, with a pin to apply and no runtime."""
    kafka = f"{{bootstrap.servers: '{broker.bootstrap_servers}'}}"
    rig = Rig(tmp_path / "project", f"lease-{unique[-8:]}", kafka)
    rig.source("read", state="stopped", offsets="offsets: {pin: start, reset: true}\n")
    yield rig
    for left in rig.leftovers():
        raise AssertionError(f"still there: {left}")


def test_one_apply_at_a_time(rig: Rig) -> None:
    moment = "before:done:ResetOffsets"
    first = rig.start_pausing(moment, "apply", "--yes")
    assert first.stdout is not None
    said = next((text for text in first.stdout if text.startswith("at ")), "")
    assert said == f"at {moment}\n"

    second = rig("apply", "--yes", expect=3)
    assert f"pid {first.pid} since 20" in second.stderr
    assert rig("plan").returncode == 0

    killed = time.monotonic()
    first.kill()
    first.communicate()
    rig.apply()
    assert time.monotonic() - killed < 20
    rig.assert_nothing_to_do()
