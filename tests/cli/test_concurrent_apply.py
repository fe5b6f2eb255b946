"""Two applies at once: the second is told who holds the lease; a killed holder's is freed."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from support.broker import BrokerAddress
from support.rig import Rig


@pytest.fixture
def rig(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Rig]:
    """A project on the tests' Kafka, with a pin to apply and no runtime."""
    rig = Rig(tmp_path / "project", f"lease-{unique[-8:]}", broker.kafka)
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
    told, *_ = [line for line in second.stderr.splitlines() if f"pid {first.pid} since 20" in line]
    assert told.startswith(f"another apply is running: {_user()}@")
    assert told.endswith("; waiting up to 15s for it to finish")
    assert rig("plan").returncode == 0

    first.kill()
    first.communicate()
    rig.apply()
    rig.assert_nothing_to_do()


def _paused(rig: Rig, moment: str, connectors: int = 1) -> subprocess.Popen[str]:
    apply = rig.start_pausing(moment, "apply", "--yes")
    assert apply.stdout is not None
    pauses = (text for text in apply.stdout if text.startswith("at "))
    assert list(islice(pauses, connectors)) == [f"at {moment}\n"] * connectors
    return apply


def test_one_that_hangs_is_taken_over_and_finds_out(rig: Rig) -> None:
    """It is frozen with eight connectors' offsets reset and not recorded. When it wakes it does at
    most what was in flight, and says so."""
    for number in range(9):
        rig.source(f"read{number}", state="stopped", offsets="offsets: {pin: start, reset: true}\n")
    moment = "before:done:ResetOffsets"
    first = _paused(rig, moment, connectors=8)
    os.kill(first.pid, signal.SIGSTOP)
    second = rig("apply", "--yes", "--takeover")
    assert f"taking over from {_user()}@" in second.stderr
    assert f"pid {first.pid} since 20" in second.stderr
    assert second.stdout.count("ended in the middle of `reset offsets read") == 8
    rig.assert_nothing_to_do()
    before = rig("history", "--json").stdout
    os.kill(first.pid, signal.SIGCONT)
    os.kill(first.pid, signal.SIGUSR1)
    stdout, stderr = first.communicate(timeout=60)
    assert first.returncode == 1, stderr
    assert "error[apply.taken-over]" in stderr
    assert "Apply failed: 8 done, 4 skipped, 8 unknown" in stdout
    assert "not started (the apply ended before): read7, read8\n" in stdout
    assert [line.split("  ")[1] for line in stdout.splitlines()[-2:]] == [
        "connect history",
        "connect plan",
    ]
    assert rig("history", "--json").stdout == before
    rig.assert_nothing_to_do()


@pytest.mark.long
def test_one_that_waits_lets_go(rig: Rig) -> None:
    """It lives and waits, so Kafka would let it keep the lease for ever."""
    first = _paused(rig, "before:started:ResetOffsets")
    second = rig.start("apply", "--yes", "--takeover")
    assert second.stderr is not None
    assert next(text for text in second.stderr if text.startswith("taking over from"))
    os.kill(first.pid, signal.SIGUSR1)
    _, stderr = first.communicate(timeout=60)
    assert first.returncode == 1
    assert "error[apply.taken-over]" in stderr
    _, stderr = second.communicate(timeout=60)
    assert second.returncode == 0, stderr
    rig.assert_nothing_to_do()


def test_ctrl_c_ends_the_wait_for_the_lease(rig: Rig) -> None:
    first = _paused(rig, "before:started:ResetOffsets")
    second = rig.start("apply", "--yes")
    assert second.stderr is not None
    assert next(
        text for text in second.stderr if text.endswith("waiting up to 15s for it to finish\n")
    )
    begun = time.monotonic()
    second.send_signal(signal.SIGINT)
    _, stderr = second.communicate(timeout=60)
    assert time.monotonic() - begun < 10
    said = stderr.splitlines()[-1]
    assert (second.returncode, said) == (130, "interrupted: nothing was changed")
    assert "Traceback" not in stderr
    first.kill()
    first.communicate()


def _waiting(rig: Rig, first: subprocess.Popen[str]) -> subprocess.Popen[str]:
    """An apply that has said that it waits for the first one."""
    second = rig.start("apply", "--yes", "--lock-timeout", "2m")
    assert second.stderr is not None
    said = next((text for text in second.stderr if "waiting up to" in text), "")
    assert said.startswith(f"another apply is running: {_user()}@")
    assert f"pid {first.pid} since 20" in said
    assert said.endswith("; waiting up to 2m for it to finish\n")
    return second


@pytest.mark.long
def test_one_that_has_time_waits_for_the_other(rig: Rig) -> None:
    """What the other one did is not done again."""
    first = _paused(rig, "before:done:ResetOffsets")
    second = _waiting(rig, first)
    os.kill(first.pid, signal.SIGUSR1)
    _, stderr = first.communicate(timeout=60)
    assert first.returncode == 0, stderr
    stdout, stderr = second.communicate(timeout=60)
    assert second.returncode == 0, stderr
    assert "Applied: nothing to do" in stdout
    assert "waiting up to" not in stderr
    rig.assert_nothing_to_do()


@pytest.mark.long
def test_ctrl_c_ends_the_wait_for_the_other(rig: Rig) -> None:
    first = _paused(rig, "before:done:ResetOffsets")
    second = _waiting(rig, first)
    asked = time.monotonic()
    second.send_signal(signal.SIGINT)
    stdout, _ = second.communicate(timeout=60)
    assert second.returncode == 130
    assert time.monotonic() - asked < 25
    assert "Applied" not in stdout
    os.kill(first.pid, signal.SIGUSR1)
    _, stderr = first.communicate(timeout=60)
    assert first.returncode == 0, stderr


def _user() -> str:
    return os.environ.get("USER") or os.environ.get("LOGNAME") or f"uid-{os.getuid()}"
