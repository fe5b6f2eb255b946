"""Who is left when a process is killed, and who is never touched."""

import os
import signal
import subprocess
import sys

import pytest

from support.lines import account, once, write_lines
from support.processes import kill, of_session, process
from support.rig import Ends, Rig, committed_lines
from support.wait import wait_until

LINES = 5_000


def _deliver(rig: Rig, kafka: str, name: str, last: int) -> None:
    wait_until(
        lambda: account(committed_lines(kafka, name), once(last)).lost == 0,
        what=f"{last} lines in {name}",
        timeout_s=60,
        every_s=0.2,
    )
    found = account(committed_lines(kafka, name), once(last))
    assert (found.lost, found.duplicated, found.extra) == (0, 0, 0)


@pytest.mark.long
def test_killed_driver_leaves_nobody_and_the_next_up_adopts_its_kafka(
    rig: Rig, unique: str
) -> None:
    rig.no_specs()
    up = rig.running or rig.up()
    file = rig.source(unique)
    write_lines(file, 1, LINES)
    rig.apply()
    _deliver(rig, up.kafka, unique, LINES)

    second = rig("up", "--detach", expect=1)
    assert f"pid {up.pid}" in second.stderr

    started = of_session(up.pid)
    assert len(started) >= 4  # driver, JVM, Python daemon, one task
    broker = rig.broker
    kill(started[0])
    wait_until(
        lambda: not of_session(up.pid), what="the driver's processes to be gone", timeout_s=10
    )
    assert rig.broker == broker

    write_lines(file, LINES + 1, 2 * LINES)
    again = rig.up()
    assert rig.broker == broker
    _deliver(rig, again.kafka, unique, 2 * LINES)

    # down ends what up started, and nothing else in that folder
    bystander = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.pause()"], cwd=rig.folder
    )
    rig("down")
    assert rig.leftovers() == []
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


@pytest.mark.long
def test_killed_kafka_comes_back_with_the_next_verb_and_stays(rig: Rig, unique: str) -> None:
    """The runtime goes on with it, and nothing is lost."""
    rig.no_specs()
    up = rig.running or rig.up()
    file = rig.source(unique)
    write_lines(file, 1, LINES)
    rig.apply()
    _deliver(rig, up.kafka, unique, LINES)

    broker = rig.broker
    assert broker is not None
    found = process(broker.pid)
    assert found is not None
    os.kill(found.pid, signal.SIGKILL)

    def is_replaced() -> bool:
        # `up` may have started it again before anybody could see it gone
        now = rig.broker
        return now is None or now.pid != broker.pid

    wait_until(is_replaced, what="Kafka to be gone")

    write_lines(file, LINES + 1, 2 * LINES)
    rig("status")
    restarted = rig.broker
    assert restarted is not None
    assert restarted.port == broker.port
    _deliver(rig, up.kafka, unique, 2 * LINES)
    assert rig.running == up
    rig.assert_nothing_to_do()
    assert Ends(up.kafka).high(unique) >= 2 * LINES
