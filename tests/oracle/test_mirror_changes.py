"""Changes of a real MirrorSourceConnector: the plan's words, and what then is copied.

Records 1 and 2 are copied at first. Record 3 comes while it is stopped for the change, record 4
after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from connect_specs.desired import OffsetEntry, Pin
from oracle.changing import Change, Changing, changing
from support.broker import BrokerAddress, create_topic, produce, read_to_end

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

FIRST = [b"1", b"2"]
GOES_ON = [b"3", b"4"]
ANEW = [*FIRST, *GOES_ON]
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
# By name: the change, and the topic whose records from then on it names
CHANGES = {
    "alias": (
        Change({"source.cluster.alias": "b"}, "from their start", ANEW, "reread"),
        "b.NAME",
    ),
    "separator": (
        # Kafka refuses a_NAME beside a.NAME
        Change({"replication.policy.separator": "-"}, "writes to other topics", GOES_ON),
        "a-NAME",
    ),
    "topics": (Change({"topics": "NAME-b"}, "are copied from their start", [b"0"]), "a.NAME-b"),
    "more topics": (Change({"topics": "NAME,NAME-b"}, "others keep", GOES_ON), "a.NAME"),
    "target": (Change({"target.cluster.alias": "u"}, "offset syncs are in", GOES_ON), "a.NAME"),
    "syncs elsewhere": (
        Change({"offset-syncs.topic.location": "target"}, "offset syncs are in", GOES_ON),
        "a.NAME",
    ),
    "no syncs": (
        Change(
            {"emit.offset-syncs.enabled": "false", "offset-syncs.topic.replication.factor": None},
            "writes no more offset syncs",
            GOES_ON,
        ),
        "a.NAME",
    ),
    "tasks": (Change({"tasks.max": "2"}, "at most 2 tasks", GOES_ON), "a.NAME"),
}


@dataclass(frozen=True, slots=True)
class Mirror:
    """The runtime, and a Kafka cluster that is both source and target."""

    kafka: str
    runtime: Changing

    def config(self, name: str, more: Mapping[str, str | None]) -> Mapping[str, str | None]:
        return {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "tasks.max": "1",
            "source.cluster.alias": "a",
            "target.cluster.alias": "t",
            "source.cluster.bootstrap.servers": self.kafka,
            "target.cluster.bootstrap.servers": self.kafka,
            "topics": name,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "offset.lag.max": "0",
            "sync.topic.acls.enabled": "false",
            "sync.topic.configs.enabled": "false",
            "refresh.topics.interval.seconds": "2",
            "key.converter": BYTES,
            "value.converter": BYTES,
            **more,
        }

    def values(self, topic: str) -> list[bytes | None]:
        return [message.value() for message in read_to_end(self.kafka, topic)]

    def syncs(self, name: str, alias: str) -> int:
        """Returns how many offset syncs a topic of them has."""
        topic = f"mm2-offset-syncs.{alias}.internal"
        keys = (message.key() or b"" for message in read_to_end(self.kafka, topic))
        return sum(name.encode() in key for key in keys)


@pytest.fixture(scope="module")
def mirror(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    folder, kafka = tmp_path_factory.mktemp("changes"), broker.bootstrap_servers
    with changing(folder, kafka, ["mirror"]) as runtime:
        yield Mirror(kafka, runtime)


@pytest.fixture
def name(mirror: Mirror, unique: str) -> Iterator[str]:
    """The name of a connector and of its topic."""
    for topic in (unique, f"{unique}-b"):
        create_topic(mirror.kafka, topic)
    produce(mirror.kafka, unique, [(None, value) for value in FIRST])
    produce(mirror.kafka, f"{unique}-b", [(None, b"0")])
    yield unique
    mirror.runtime.delete_all()


def run_first(mirror: Mirror, name: str, config: Mapping[str, str | None]) -> None:
    mirror.runtime.apply(name, config)
    mirror.runtime.wait_for(name, FIRST, lambda: mirror.values(f"a.{name}"))


@pytest.mark.parametrize(("change", "topic"), CHANGES.values(), ids=CHANGES)
def test_a_plan_says_what_a_change_does(
    mirror: Mirror, name: str, change: Change, topic: str
) -> None:
    before = mirror.config(name, change.before)
    run_first(mirror, name, before)
    after = {**before, **change.changes}
    key = next(iter(change.changes))
    consequence, words = mirror.runtime.said(name, after, key)
    assert consequence == change.consequence
    assert change.said in words
    mirror.runtime.stop(name)
    syncs = mirror.syncs(name, "t")
    assert syncs
    produce(mirror.kafka, name, [(None, b"3")])
    mirror.runtime.apply(name, after)
    produce(mirror.kafka, name, [(None, b"4")])
    topic = topic.replace("NAME", name)
    at = len(FIRST) if topic == f"a.{name}" else 0
    mirror.runtime.wait_for(name, change.then, lambda: mirror.values(topic)[at:])
    if key == "emit.offset-syncs.enabled":
        assert mirror.syncs(name, "t") == syncs
    if key == "target.cluster.alias":
        assert mirror.syncs(name, "u")


def test_a_reset_copies_again_behind_the_copies(mirror: Mirror, name: str) -> None:
    config = mirror.config(name, {})
    run_first(mirror, name, config)
    mirror.runtime.apply(name, config, Pin("again", reset=True))
    mirror.runtime.wait_for(name, [*FIRST, *FIRST], lambda: mirror.values(f"a.{name}"))


def test_an_earlier_offset_copies_again_from_there(mirror: Mirror, name: str) -> None:
    """The offset is that of the last record that was copied."""
    config = mirror.config(name, {})
    run_first(mirror, name, config)
    mirror.runtime.stop(name)
    (entry,) = mirror.runtime.project.offsets(name)
    assert entry.offset == {"offset": 1}
    mirror.runtime.apply(name, config, Pin("back", (OffsetEntry(entry.partition, {"offset": 0}),)))
    mirror.runtime.wait_for(name, [*FIRST, b"2"], lambda: mirror.values(f"a.{name}"))


def test_a_renamed_connector_goes_on_where_it_was(mirror: Mirror, name: str) -> None:
    config = mirror.config(name, {})
    run_first(mirror, name, config)
    mirror.runtime.stop(name)
    produce(mirror.kafka, name, [(None, b"3")])
    renamed = f"{name}-renamed"
    mirror.runtime.apply(renamed, config, old=name)
    produce(mirror.kafka, name, [(None, b"4")])
    mirror.runtime.wait_for(renamed, ANEW, lambda: mirror.values(f"a.{name}"))
