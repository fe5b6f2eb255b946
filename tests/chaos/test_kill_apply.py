"""SIGKILL of an apply between a pin's offsets and its record: applied again, nothing is rewound
twice. By Python's file connectors, and by Java's."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import pytest

from support.broker import create_topic, produce
from support.java_plugins import SOURCE, add_compiled
from support.lines import Account, account, line, once, write_lines
from support.rig import Ends, Rig, committed_lines, lines_of
from support.wait import wait_until

LINES = 20_000
FROM = 15_000

REWIND = """\
offsets:
  pin: again
  set:
    - partition: {{kafka_topic: {topic}, kafka_partition: 0}}
      offset: {{kafka_offset: {offset}}}
"""
RESET = "offsets: {pin: again, reset: true}\n"
UNRECORDED = ("before:done:ResetOffsets", "before:done:AlterOffsets")


@dataclass(slots=True)
class Delivered:
    """A source that has written all of a file, and a sink that has written all of a topic."""

    rig: Rig
    source: str
    sink: str
    topic: str
    outfile: Path
    kafka: str

    def pin(self) -> None:
        """Specs that have the source read all again, the sink all from line FROM + 1."""
        self.rig.source(self.source, offsets=RESET)
        pin = REWIND.format(topic=self.topic, offset=FROM)
        self.rig.sink(self.sink, self.topic, offsets=pin)

    def is_there(self, source_times: int, sink: Counter[int]) -> bool:
        """Whether the source's topic and the sink's file hold as much, and the sink committed."""
        ends = Ends(self.kafka)
        return (
            len(lines_of(self.outfile)) >= sink.total()
            and ends.committed(f"connect-{self.sink}", self.topic) == LINES
            and ends.stable(self.source) >= source_times * LINES
        )

    def wait(self, source_times: int, sink: Counter[int]) -> None:
        """Returns when it is so."""
        wait_until(
            lambda: self.is_there(source_times, sink),
            what=f"{source_times * LINES} lines from the source, {sink.total()} in the sink",
            timeout_s=60,
            every_s=0.2,
        )

    def check(self, source_times: int, sink: Counter[int]) -> None:
        """Waits until all was delivered, and accounts for every line."""
        self.wait(source_times, sink)
        wanted = Counter(dict.fromkeys(range(1, LINES + 1), source_times))
        found = account(committed_lines(self.kafka, self.source), wanted)
        assert found == Account(found=wanted.total(), lost=0, duplicated=0, torn=0, extra=0)
        found = account(lines_of(self.outfile), sink)
        assert found == Account(found=sink.total(), lost=0, duplicated=0, torn=0, extra=0)


@pytest.fixture(params=["Python", "Java"])
def delivered(request: pytest.FixtureRequest, tmp_path: Path, unique: str) -> Iterator[Delivered]:
    """Both ends at rest."""
    if request.param == "Python":
        rig = request.getfixturevalue("rig")
        rig.no_specs()
        yield _delivered(rig, unique)
    else:
        with _java_rig(tmp_path / "java") as rig:
            yield _delivered(rig, unique)


@contextmanager
def _java_rig(folder: Path) -> Iterator[Rig]:
    """A project the file connectors of which are Java's."""
    rig = Rig(folder)
    # without a Java plugin on plugin.path there is no JVM
    add_compiled("Counting", {SOURCE: "tests.Counting"}, folder / "plugins")
    rig.set_worker({"plugin.path": f"{folder}/plugins", "java.file.connectors": "true"})
    try:
        yield rig
    finally:
        assert rig.end() == []


def _delivered(rig: Rig, unique: str) -> Delivered:
    up = rig.running or rig.up()
    topic = f"{unique}-topic"
    create_topic(up.kafka, topic)
    produce(up.kafka, topic, ((None, line(n).encode()) for n in range(1, LINES + 1)))
    source, sink = f"{unique}-in", f"{unique}-out"
    write_lines(rig.source(source), 1, LINES)
    delivered = Delivered(rig, source, sink, topic, rig.sink(sink, topic), up.kafka)
    rig.apply()
    delivered.wait(1, once(LINES))
    return delivered


def _kill_at(moment: str, apply: Popen[str]) -> None:
    """SIGKILL once the apply says that it is there."""
    assert apply.stdout is not None
    said = next((text for text in apply.stdout if text.startswith("at ")), "")
    apply.kill()
    _, told = apply.communicate()
    assert said == f"at {moment}\n", told


@pytest.mark.long
def test_with_a_runtime_up(delivered: Delivered) -> None:
    """Each of the two pins has its offsets written once without a record."""
    rig = delivered.rig
    delivered.pin()
    for moment in UNRECORDED:
        # One after the other: a sink that is done before the kill has no moment left
        apply = rig.start_pausing(moment, "apply", "--yes", "--parallelism", "1")
        _kill_at(moment, apply)
        assert ("STOPPED", []) in rig.states().values()
    rig.apply()
    assert rig.states() == {
        delivered.source: ("RUNNING", ["RUNNING"]),
        delivered.sink: ("RUNNING", ["RUNNING"]),
    }
    wanted = once(LINES) + once(LINES, FROM + 1)
    delivered.check(2, wanted)
    rig.assert_nothing_to_do()
    assert rig("apply", "--yes").stdout.count(": no changes, ") == 1
    delivered.check(2, wanted)


@pytest.mark.long
def test_with_no_runtime(delivered: Delivered) -> None:
    """The apply leads by itself, and the next runtime runs what it wrote."""
    rig = delivered.rig
    rig("down")
    delivered.pin()
    moment = UNRECORDED[0]
    _kill_at(moment, rig.start_pausing(moment, "apply", "--yes"))
    rig.apply()
    rig.assert_nothing_to_do()
    delivered.kafka = rig.up().kafka
    wanted = once(LINES) + once(LINES, FROM + 1)
    delivered.check(2, wanted)
    rig.assert_nothing_to_do()
    assert rig.states() == {
        delivered.source: ("RUNNING", ["RUNNING"]),
        delivered.sink: ("RUNNING", ["RUNNING"]),
    }
