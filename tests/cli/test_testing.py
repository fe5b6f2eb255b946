"""`connect test` as a user sees it: tests, records before and after, old specs against new."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer

from support.broker import BrokerAddress, create_topic, produce
from support.command import Command

PROJECT = """\
project: shop
cluster:
  group.id: {group}
  kafka: {{bootstrap.servers: "{kafka}"}}
  worker:
    key.converter: org.apache.kafka.connect.storage.StringConverter
specs: [connectors]
"""
NOWHERE = "localhost:1"
SPEC = """\
name: orders
config:
  connector.class: FileStreamSink
  topics: {topic}
  file: /dev/null
  transforms: amount,card
  transforms.amount.type: org.apache.kafka.connect.transforms.Cast$Value
  transforms.amount.spec: amount:{amount}
  transforms.card.type: org.apache.kafka.connect.transforms.ReplaceField$Value
  transforms.card.exclude: {exclude}
"""
TESTS = """\
records:
  - name: the amount is a number, the card is gone
    input: {key: "42", value: {id: 42, amount: "10.00", card: "4111"}}
    expect: {value: {id: 42, amount: 10.0}}
  - name: an amount that is no number fails
    input: {value: {amount: ten}}
    error: {stage: TRANSFORMATION, message: out of range}
"""
RECORDS = """\
{"key": "1", "value": {"amount": "1.5", "card": "4111-secret"}, "headers": {"trace": "x"}}
{"key": "2", "value": {"amount": "2.5", "card": "4111-secret"}}
"""


def spec(topic: str = "orders", amount: str = "float64", exclude: str = "card") -> str:
    return SPEC.format(topic=topic, amount=amount, exclude=exclude)


@pytest.fixture
def project(tmp_path: Path) -> Command:
    """A project whose Kafka nobody needs, in a folder of a repository."""
    connect = Command(tmp_path / "shop")
    connect.write("connect.yaml", PROJECT.format(group="shop", kafka=NOWHERE))
    connect.write("connectors/orders.yaml", spec())
    connect.write("connectors/orders.test.yaml", TESTS)
    connect.write("records.jsonl", RECORDS)
    return connect


def test_records_that_are_shown_can_be_read_again(project: Command) -> None:
    told = json.loads(project("test", "orders", "--records", "records.jsonl", "--json").stdout)
    (connector,) = told["connectors"]
    first = connector["records"][0]
    assert first["before"]["value"] == {"amount": "1.5", "card": "4111-secret"}
    assert first["after"]["value"] == {"amount": 1.5}
    project.write("again.jsonl", "\n".join(json.dumps(r["given"]) for r in connector["records"]))
    again = json.loads(project("test", "orders", "--records", "again.jsonl", "--json").stdout)
    assert again == told


def test_the_last_records_of_a_topic(connect: Command, broker: BrokerAddress, unique: str) -> None:
    servers = broker.bootstrap_servers
    connect.write("connect.yaml", PROJECT.format(group=unique, kafka=servers))
    connect.write("connectors/orders.yaml", spec(topic=unique))
    create_topic(servers, unique, partitions=2)
    values = [b'{"amount": "%d", "card": "4111-secret"}' % at for at in range(30)]
    produce(servers, unique, [(b"k", value) for value in values])
    produce(servers, unique, [(b"\xff", b'{"amount": "x"}')], partition=1)

    aborted = Producer({"bootstrap.servers": servers, "transactional.id": unique})
    aborted.init_transactions(30)
    aborted.begin_transaction()
    aborted.produce(unique, b"{", partition=0)
    aborted.flush(30)
    aborted.abort_transaction(30)

    done = connect("test", "orders", "--last", "3", "--json")
    assert done.returncode == 1
    records = json.loads(done.stdout)["connectors"][0]["records"]
    assert [(each["record"], each["outcome"]) for each in records] == [
        (f"{unique}-0@28", "delivered"),
        (f"{unique}-0@29", "delivered"),
        (f"{unique}-1@0", "failed"),
    ]
    assert records[2]["given"]["key"] == "base64:/w=="

    matching = spec(topic=unique).replace("topics: ", "topics.regex: .*")
    connect.write("connectors/orders.yaml", matching)
    done = connect("test", "orders", "--last", "2")
    assert done.stdout == "orders: 1 delivered, 0 dropped, 1 failed\n"

    # What is live has no transformations yet
    connect.write("connectors/orders.yaml", spec(topic=unique).partition("  transforms:")[0])
    applied = connect("apply", "--yes", "--health-timeout", "0")
    assert "orders: create done" in applied.stdout + applied.stderr
    assert "nothing to compare" in connect("test", "--against", "live").stdout
    connect.write("connectors/orders.yaml", spec(topic=unique))
    done = connect("test", "--against", "live")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        "orders: 31 of 31 records come out differently: value.amount (30), value.card (30);"
        " 1 fails that did not, in TRANSFORMATION,"
        " org.apache.kafka.connect.transforms.Cast$Value (1)\n"
    )


EXAMPLES = Path(__file__).parents[2] / "examples" / "connectors"


def test_each_example_connector_is_valid_and_its_tests_pass(tmp_path: Path) -> None:
    connect = Command(tmp_path / "examples")
    shutil.copytree(EXAMPLES, tmp_path / "examples", dirs_exist_ok=True)
    validated = connect("validate")
    assert (validated.returncode, validated.stderr) == (0, ""), validated.stdout
    tested = connect("test", "--json")
    assert tested.returncode == 0, tested.stdout
    specs = {file.stem for file in (EXAMPLES / "connectors").glob("*.yaml")}
    named = {each["connector"] for each in json.loads(tested.stdout)["tests"]}
    assert named == {name for name in specs if not name.endswith(".test")}
