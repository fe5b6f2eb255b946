"""`connect test` as a user sees it: tests, records before and after, old specs against new."""

from __future__ import annotations

import json
import shutil
import subprocess
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


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


@pytest.fixture
def committed(project: Command) -> Command:
    """The project, committed."""
    git(project.folder.parent, "init", "-q", "-b", "main")
    git(project.folder.parent, "add", ".")
    git(project.folder.parent, "commit", "-qm", "one")
    return project


def test_against_a_git_ref(committed: Command) -> None:
    same = committed("test", "orders", "--against", "main", "--records", "records.jsonl")
    assert (same.returncode, same.stdout) == (0, "orders: all 2 records come out the same\n")

    committed.write("connectors/orders.yaml", spec(exclude="amount"))
    words = ("test", "orders", "--against", "main", "--records", "records.jsonl")
    done = committed(*words)
    assert (done.returncode, done.stdout) == (
        0,
        "orders: 2 of 2 records come out differently: value.amount (2), value.card (2)\n",
    )
    assert committed(*words, "--detailed-exitcode").returncode == 4
    shown = committed(*words, "--table").stdout
    assert '  +  value.card         "4111-secret"\n' in shown

    comment = committed(*words, "--markdown").stdout
    assert comment.startswith("<!-- connect-test:shop -->\n")
    assert "2 of 2 records come out differently: <code>value.amount</code> (2)" in comment
    told = committed(*words, "--json").stdout
    assert json.loads(told)["connectors"][0]["fields"] == {"value.amount": 2, "value.card": 2}
    assert "4111" not in comment + told + done.stdout + done.stderr


def test_a_ref_of_long_ago_and_a_new_connector(committed: Command) -> None:
    committed.write("connectors/orders.yaml", spec(exclude="id"))
    committed.write("connectors/orders.test.yaml", TESTS)
    git(committed.folder, "commit", "-qam", "two")
    words = ("test", "orders", "--records", "records.jsonl", "--against")
    assert "all 2 records come out the same" in committed(*words, "HEAD").stdout
    assert "value.card (2)" in committed(*words, "HEAD~1").stdout

    # Without a name: connectors that cannot be compared are told, and those that are the same not
    committed.write("connectors/new.yaml", spec().replace("name: orders", "name: new"))
    done = committed("test", "--against", "HEAD")
    assert done.returncode == 0
    assert done.stderr == "new: not compared: new has no earlier config to compare with\n"
    assert "- <code>new</code>: not compared: " in (
        committed("test", "--against", "HEAD", "--markdown").stdout
    )


def test_specs_outside_of_the_projects_folder_and_renamed_ones(committed: Command) -> None:
    """The trap: only the project's own folder is there at a ref."""
    shared = "name: {}\n" + spec().partition("\n")[2]
    committed.write("../shared/a.yaml", shared.format("a"))
    (committed.folder / "connectors/a.yaml").symlink_to("../../shared/a.yaml")
    # Another project's link is not of this one
    committed.write("../other/connect.yaml", "project: other")
    (committed.folder / "../other/link.yaml").symlink_to("/nowhere")
    git(committed.folder.parent, "add", ".")
    git(committed.folder.parent, "commit", "-qm", "two")
    renamed = shared.format("b") + "renamed_from: a\n"
    committed.write("../shared/a.yaml", renamed.replace("exclude: card", "exclude: amount"))
    for name in ("orders", "b"):
        done = committed("test", name, "--against", "HEAD", "--records", "records.jsonl")
        assert ("value.card (2)" in done.stdout) == (name == "b"), done.stderr


def test_a_glob_that_leads_out_of_the_projects_folder(committed: Command) -> None:
    """The trap: in a copy of the project's folder it matches the project itself."""
    project = PROJECT.format(group="shop", kafka=NOWHERE)
    committed.write("connect.yaml", project.replace("connectors]", "../*/connectors]"))
    committed.write("../other/connectors/a.yaml", spec().replace("name: orders", "name: a"))
    git(committed.folder.parent, "add", ".")
    git(committed.folder.parent, "commit", "-qm", "two")
    done = committed("test", "a", "--against", "HEAD", "--records", "records.jsonl")
    assert done.stdout == "a: all 2 records come out the same\n", done.stderr


def test_records_that_fail_and_did_not_are_a_failure(committed: Command) -> None:
    committed.write("connectors/orders.yaml", spec(amount="int8"))
    committed.write("records.jsonl", '{"value": {"amount": "1000"}}\n')
    done = committed("test", "orders", "--against", "HEAD", "--records", "records.jsonl")
    assert done.returncode == 1
    assert "1 fails that did not, in TRANSFORMATION" in done.stdout


def test_a_source_is_compared_with_the_records_of_its_tests(committed: Command) -> None:
    source = "name: in\nconfig: {connector.class: FileStreamSource, file: /x, topic: t, %s}\n"
    tests = "records: [{name: one, input: {value: text, value_schema: string}, expect: {}}]\n"
    committed.write("connectors/in.yaml", source % "value.converter: JsonConverter")
    committed.write("connectors/in.test.yaml", tests)
    git(committed.folder, "add", ".")
    git(committed.folder, "commit", "-qm", "two")
    converter = "value.converter: JsonConverter, value.converter.schemas.enable: false"
    committed.write("connectors/in.yaml", source % converter)
    done = committed("test", "in", "--against", "HEAD")
    assert done.stdout == "in: 1 of 1 record comes out differently: value (bytes) (1)\n"


def test_a_ref_that_is_not_there(committed: Command) -> None:
    done = committed("test", "orders", "--against", "nowhere", "--records", "records.jsonl")
    assert done.returncode == 2
    assert "error[git.ref]: nowhere: " in done.stderr
    new = committed.write("connectors/new.yaml", spec().replace("name: orders", "name: new"))
    assert new.exists()
    done = committed("test", "new", "--against", "main", "--records", "records.jsonl")
    assert "error[test.new]: connectors/new.yaml:1:7: " in done.stderr


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
