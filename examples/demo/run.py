"""`make demo`: from a file through Kafka into a file, as a user of `connect` would do it.

Drives the real command by subprocess, in a project of its own in a temporary folder. Every line is
counted at the end of each step: anything lost, duplicated or extra, and any step that does not
answer as it should, makes this exit with 1. The number of lines is an argument. With `--master
spark://…` tasks run on a Spark cluster, whose nodes must be this machine: its files and its Kafka
are here.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
from confluent_kafka import Consumer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1]))
from lines import LINE_BYTES, Account, account, line_number, write_lines
from walkthrough import Off, Walkthrough, say, temporary_folder

_parser = argparse.ArgumentParser(prog="demo")
_parser.add_argument("lines", nargs="?", type=int, default=200_000)
_parser.add_argument("--master", metavar="URL", help="a Spark master; by default this machine")
_options = _parser.parse_args()
LINES: int = _options.lines
MASTER: list[str] = ["--master", _options.master] if _options.master else []
TOPIC = "lines"
PATIENCE_S = 60.0
# A proxy that the environment names must not come between us and this machine's own port.
REST = httpx.Client(timeout=30, trust_env=False)

PROJECT = """\
project: demo
cluster:
  group.id: demo
  kafka: embedded
  worker:
    key.converter: org.apache.kafka.connect.storage.StringConverter
    value.converter: org.apache.kafka.connect.storage.StringConverter
    offset.flush.interval.ms: 1000
    listeners: http://127.0.0.1:0
specs: [connectors/]
"""

READ = """\
name: read-lines
state: {state}
config:
  connector.class: FileStreamSource
  tasks.max: 1
  file: {folder}/in.txt
  topic: lines
"""

WRITE = """\
name: write-lines
state: running
config:
  connector.class: FileStreamSink
  tasks.max: 1
  file: {folder}/out.txt
  topics: lines
"""

REWIND = """\
offsets:
  pin: rewind-1
  set:
    - partition: {{kafka_topic: lines, kafka_partition: 0}}
      offset: {{kafka_offset: {offset}}}
"""


class Demo(Walkthrough):
    """The project, and the lines in it."""

    def delivered(self) -> int:
        """How many lines the sink's file has, by its size: looking must not cost the tasks time."""
        try:
            return (self.folder / "out.txt").stat().st_size // LINE_BYTES
        except FileNotFoundError:
            return 0

    def apply_and_watch(self, wanted: int) -> None:
        """Applies, and tells when the lines arrive; apply itself returns once everything runs."""
        say("$ connect apply --yes")
        begin, before = time.monotonic(), self.delivered()
        first = complete = shown = 0.0
        applying = self.start_verb("apply", "--yes")
        while applying.poll() is None or not complete:
            time.sleep(0.05)
            took, there = time.monotonic() - begin, self.delivered()
            first = first or (took if there > before else 0.0)
            complete = complete or (took if there >= wanted else 0.0)
            if applying.returncode not in (None, 0):
                raise Off(f"connect apply ended with {applying.returncode}")
            if took > PATIENCE_S:
                self.connect("status")
                raise Off(f"the sink's file has {there} of {wanted} lines after {took:.0f} s")
            if first and not complete and took - shown >= 1.0:
                shown = took
                say(f"  {there:,} of {wanted:,} lines are in the sink's file")
        say(
            f"  {wanted:,} lines are in the sink's file: the first came {first:.1f} s after the "
            f"start of apply, the last {complete - first:.1f} s after that"
        )

    def sink_lines(self) -> list[str]:
        return (self.folder / "out.txt").read_text().splitlines()

    def topic_lines(self, offset: int = 0) -> Iterator[str]:
        """The topic's committed records from an offset on."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.kafka,
                "group.id": "demo-count",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        try:
            consumer.assign([TopicPartition(TOPIC, 0, offset)])
            deadline = time.monotonic() + PATIENCE_S
            while True:
                # It returns what is there at the timeout: a long one would wait at the end.
                for message in consumer.consume(10_000, timeout=0.2):
                    if message.error():
                        return
                    yield message.value().decode()
                if time.monotonic() > deadline:
                    raise Off(f"the topic {TOPIC} could not be read to its end")
        finally:
            consumer.close()

    def check(self, what: str, found: Account) -> None:
        say(f"  {what}: {found}")
        if not found.clean:
            raise Off(f"{what}: {found}")


def once(first: int = 1) -> Counter[int]:
    """Every line number from `first` on, once."""
    return Counter(range(first, LINES + 1))


def start(demo: Demo) -> None:
    demo.title("Start Kafka and the runtime, in the background, for this folder only.")
    demo.up(*MASTER)


def deliver(demo: Demo) -> None:
    demo.title(f"Write a file of {LINES:,} numbered lines, and two specs: file → topic → file.")
    write_lines(demo.folder / "in.txt", LINES)
    demo.spec("read-lines", READ.format(state="running", folder=demo.folder))
    demo.spec("write-lines", WRITE.format(folder=demo.folder))
    say((demo.folder / "connectors" / "write-lines.yaml").read_text().rstrip())

    demo.title("Ask what would change, before anything does.")
    demo.connect("plan")

    demo.title("Apply that plan, and watch the lines arrive. --yes: nobody is here to be asked.")
    demo.apply_and_watch(LINES)

    demo.title("See what runs, and account for every line.")
    demo.connect("status")
    demo.check("topic, committed records", account(demo.topic_lines(), once()))
    demo.check("sink's file", account(demo.sink_lines(), once()))


def change_by_hand(demo: Demo) -> None:
    demo.title("Change the source manually through REST, outside the files. `plan` sees it.")
    config_url = f"{demo.url}/connectors/read-lines/config"
    config = REST.get(config_url).raise_for_status().json()
    config["batch.size"] = "500"
    say(f'$ curl -X PUT {config_url} -d \'{{..., "batch.size": "500"}}\'')
    answer = REST.put(config_url, json=config)
    say(f"  HTTP {answer.status_code}")
    answer.raise_for_status()
    # 4: changes are pending; a pipeline can tell that from "nothing to do" and from a failure.
    demo.connect("plan", "--detailed-exitcode", expect=4)

    demo.title("The files win: apply puts the source's config back.")
    demo.connect("apply", "--yes")
    demo.connect("plan", "--detailed-exitcode")


def sink_offset(demo: Demo) -> int:
    listed = demo.ask("offsets", "list", "write-lines")
    return int(listed["offsets"][0]["offset"]["kafka_offset"])


def wait_for_commit(demo: Demo) -> int:
    """The sink's offset once it is committed to the end of the topic."""
    deadline = time.monotonic() + PATIENCE_S
    before = -1
    while time.monotonic() < deadline:
        offset = sink_offset(demo)
        if offset >= LINES and offset == before:
            return offset
        before = offset
        time.sleep(0.5)
    raise Off(f"the sink committed offset {before}, which is not the end of {TOPIC}")


def rewind(demo: Demo) -> None:
    demo.title("Pin the sink to a third of the topic: two thirds are to be delivered again.")
    pinned = wait_for_commit(demo) // 3
    first = line_number(next(demo.topic_lines(pinned)))
    if first is None:
        raise Off(f"offset {pinned} of {TOPIC} holds none of our lines")
    pin = REWIND.format(offset=pinned)
    demo.spec("write-lines", WRITE.format(folder=demo.folder) + pin)
    say(pin.rstrip())
    demo.connect("plan")

    demo.title("Apply it: stop the sink, move its offsets, record the pin, run it again.")
    again = once(first)
    demo.apply_and_watch(LINES + again.total())

    demo.title("Apply once more: the pin is recorded, so nothing is rewound twice.")
    demo.connect("apply", "--yes")
    time.sleep(2.0)
    say(f"  expected: every line once, and lines {first} to {LINES} once more")
    demo.check("sink's file", account(demo.sink_lines(), once() + again))


def stop_source(demo: Demo) -> None:
    demo.title("Stop the source, by its file: `state: stopped`.")
    demo.spec("read-lines", READ.format(state="stopped", folder=demo.folder))
    demo.connect("apply", "--yes")
    demo.connect("status")
    status = REST.get(f"{demo.url}/connectors/read-lines/status").json()
    if status["connector"]["state"] != "STOPPED" or status["tasks"]:
        raise Off(f"read-lines is not stopped: {status}")


def main() -> int:
    demo = Demo(temporary_folder("demo"))
    (demo.folder / "connect.yaml").write_text(PROJECT)
    return demo.take(
        (start, deliver, change_by_hand, rewind, stop_source),
        "All steps went as they should, and every line is accounted for",
    )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
