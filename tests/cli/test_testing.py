"""`connect test` as a user sees it: tests, records before and after, old specs against new."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

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


def test_tests_beside_the_specs(project: Command) -> None:
    done = project("test")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "connectors/orders.test.yaml\n"
        "  ok    the amount is a number, the card is gone\n"
        "  ok    an amount that is no number fails\n"
        "2 tests: 2 passed, 0 failed\n"
    )
    assert project("test", "orders").stdout == done.stdout
    assert project("test", "connectors/orders.yaml").stdout == done.stdout
    assert project("validate").returncode == 0


def test_a_test_that_fails(project: Command) -> None:
    project.write("connectors/orders.yaml", spec(exclude="id"))
    done = project("test", "--junit", "results/junit.xml", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["passed"], told["failed"]) == (1, 1)
    assert told["tests"][0]["mismatches"] == [
        {"path": "value.id", "expected": "42", "found": "nothing"},
        {"path": "value.card", "expected": "nothing", "found": '"4111"'},
    ]
    suites = ElementTree.parse(project.folder / "results/junit.xml").getroot()
    assert (suites.attrib["tests"], suites.attrib["failures"]) == ("2", "1")
    (failure,) = suites.iter("failure")
    assert failure.attrib["message"] == "value.id: expected 42, found nothing"
    shown = project("test").stdout
    assert (
        "  FAIL  the amount is a number, the card is gone (connectors/orders.test.yaml:2:5)\n"
        in (shown)
    )
    assert "2 tests: 1 passed, 1 failed" in shown


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "orders.test.yaml",
            "records: [{name: a, dropped: true}]\n",
            "test.missing-field]: connectors/orders.tes",
        ),
        ("orders.test.yaml", "records: [\n", "file.syntax]: connectors/orders.test.yaml:2:1"),
        ("other.test.yaml", TESTS, "test.no-spec]: connectors/other.test.yaml:1:1"),
        ("other.test.yaml", spec(), "spec.named-as-test]: connectors/other.test.yaml:1:1"),
    ],
)
def test_input_that_is_not_valid(project: Command, name: str, text: str, told: str) -> None:
    project.write(f"connectors/{name}", text)
    for verb in ("test", "validate"):
        done = project(verb)
        assert done.returncode == 2
        assert told in done.stderr
        assert done.stderr.count("error[") == 1


def test_a_java_class_is_named_at_its_line(project: Command) -> None:
    text = spec().replace("org.apache.kafka.connect.transforms.Cast$Value", "com.acme.Mask")
    project.write("connectors/orders.yaml", text)
    done = project("test")
    assert done.returncode == 2
    assert (
        "error[test.cannot-run]: connectors/orders.yaml:7:3: transforms.amount.type of orders:"
        " com.acme.Mask cannot run here"
    ) in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--records", "r", "--last", "1"),
        ("--junit", "j", "--last", "1"),
        ("--markdown",),
        ("--detailed-exitcode",),
        ("--json", "--markdown", "--against", "live"),
        ("--last", "0"),
        ("nothing",),
        ("--records", "missing.jsonl", "orders"),
        ("--against", "HEAD", "--records", "records.jsonl"),
        ("--against", "-x", "orders"),
    ],
)
def test_wrong_usage(project: Command, words: tuple[str, ...]) -> None:
    project.write("connectors/second.yaml", spec().replace("name: orders", "name: second"))
    assert project("test", *words).returncode == 2


def test_records_of_a_file_before_and_after(project: Command) -> None:
    done = project("test", "orders", "--records", "records.jsonl", "--table")
    assert done.returncode == 0
    assert '  ~  value.amount   "1.5"          1.5\n' in done.stdout
    assert '  -  value.card     "4111-secret"\n' in done.stdout
    assert done.stdout.endswith("orders: 2 delivered, 0 dropped, 0 failed\n")

    told = json.loads(project("test", "orders", "--records", "records.jsonl", "--json").stdout)
    (connector,) = told["connectors"]
    first = connector["records"][0]
    assert first["before"]["value"] == {"amount": "1.5", "card": "4111-secret"}
    assert first["after"]["value"] == {"amount": 1.5}
    # What is shown can be read again
    project.write("again.jsonl", "\n".join(json.dumps(r["given"]) for r in connector["records"]))
    again = json.loads(project("test", "orders", "--records", "again.jsonl", "--json").stdout)
    assert again == told


def test_values_are_not_printed_unless_they_are_asked_for(project: Command) -> None:
    """The trap: a job's log keeps what a developer looked at."""
    done = project("test", "orders", "--records", "records.jsonl", "-v")
    assert done.stdout == "orders: 2 delivered, 0 dropped, 0 failed\n"
    assert "4111" not in done.stdout + done.stderr


def test_secrets_of_the_config_are_hidden(project: Command) -> None:
    added = (
        "  transforms.source.type: org.apache.kafka.connect.transforms.InsertField$Value\n"
        "  transforms.source.static.field: token\n"
        "  transforms.source.static.value: hunter2\n"
        "sensitive: [transforms.source.static.value]\n"
    )
    text = spec().replace("transforms: amount,card", "transforms: amount,card,source")
    project.write("connectors/orders.yaml", text + added)
    tests = "records: [{name: a, input: {value: {}}, expect: {value: {token: other}}}]\n"
    project.write("connectors/orders.test.yaml", tests)
    failed = project("test", "--junit", "junit.xml")
    assert 'value.token: expected "other", found "[hidden]"' in failed.stdout
    told = [
        failed.stdout,
        (project.folder / "junit.xml").read_text(),
        project("test", "--json").stdout,
    ]
    for form in ("--table", "--json"):
        told.append(project("test", "orders", "--records", "records.jsonl", form).stdout)
        assert "[hidden]" in told[-1]
    assert "hunter2" not in "".join(told)


def test_a_spec_is_named_by_its_file_wherever_the_user_is(project: Command) -> None:
    inside = Command(project.folder / "connectors")
    for name in ("orders", "orders.yaml", "./orders.test.yaml", str(inside.folder / "orders.yaml")):
        assert "2 passed" in inside("test", name).stdout


def test_a_record_that_fails_is_a_failure(project: Command) -> None:
    project.write("records.jsonl", '{"value": "{"}\n')
    done = project("test", "orders", "--records", "records.jsonl")
    assert (done.returncode, done.stdout) == (1, "orders: 0 delivered, 0 dropped, 1 failed\n")


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
