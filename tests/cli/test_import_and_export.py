"""`connect import` and `connect export --live` on a real Kafka with our runtime's topics."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from connect_runtime.storage import config_topic
from connect_runtime.storage.log import LogRecord
from connect_specs.states import TargetState
from support.by_hand import ByHand
from support.command import Command

ODD = {
    "k.on": "on",
    "k.octal": "010",
    "k.underscore": "1_000",
    "k.unicode": "é 日本 😀",
    "k.spaces": "  both ends  ",
    "k.hash": "a #b",
    "k.colon": "a: b",
    "k.empty": "",
    "k.lines": "SELECT *\n  FROM t\n\n-- x\n",
    "k.tabs": "a\tb\r\n",
    "k.template": "{{ a }}",
    "on": "1",
    "a: b": "1",
    "#": "1",
}


@dataclass(frozen=True)
class Cluster:
    """A project without specs on the session's Kafka, and connectors made past it."""

    connect: Command
    hand: ByHand

    def create(self, name: str, **config: str) -> None:
        self.hand.config(name, **{"file": "/dev/null"} | config)

    def stop(self, name: str) -> None:
        topic = self.hand.topics.config
        self.hand.write(config_topic.target_state_record(topic, name, TargetState.STOPPED))

    def configs(self) -> list[LogRecord]:
        return self.hand.records(self.hand.topics.config)

    def no_changes(self) -> bool:
        planned = self.connect("plan", "--detailed-exitcode")
        return planned.returncode == 0 and ": no changes, " in planned.stdout


@pytest.fixture
def cluster(on_kafka: Command, by_hand: ByHand) -> Cluster:
    (on_kafka.folder / "connectors").mkdir()
    return Cluster(on_kafka, by_hand)


def test_braces_stay_in_a_project_whose_files_are_templates(cluster: Cluster) -> None:
    cluster.connect.write("values/default.yaml", "a: 1\n")
    cluster.create("odd", **{"k.template": "{{ a }}{% {# }}"})
    assert cluster.connect("import", "odd").returncode == 0
    assert cluster.no_changes()


def test_the_next_plan_is_empty(cluster: Cluster) -> None:
    cluster.create("odd", **ODD)
    cluster.create("secret", **{"db.password": "hunter2", "db.token": "${file:/x:token}"})
    cluster.stop("secret")
    cluster.create("Odd / name")
    before = cluster.configs()

    done = cluster.connect("import", "--all")
    assert done.returncode == 0, done.stderr
    assert "secret: wrote connectors/secret.yaml" in done.stdout
    assert "left as on the cluster, not in the spec: db.password" in done.stdout
    assert cluster.configs() == before
    assert cluster.no_changes()
    assert cluster.connect("drift").returncode == 0
    assert cluster.connect("import", "--all").stdout.startswith("nothing to import")

    files = sorted((cluster.connect.folder / "connectors").iterdir())
    assert [file.name for file in files][1:] == ["odd.yaml", "secret.yaml"]
    assert files[0].name.startswith("Odd-name-")
    text = files[2].read_text()
    assert "hunter2" not in text + done.stdout + done.stderr
    assert "state: stopped\n" in text
    assert "db.token: ${file:/x:token}\n" in text
    assert "    - config.db.password\n" in text

    # the secret stays on the cluster also when the rest changes
    files[2].write_text(text.replace("topic: lines", "topic: others"))
    assert cluster.connect("apply", "--yes").returncode == 0
    value = json.loads(cluster.configs()[-1].value or b"")["properties"]
    assert (value["topic"], value["db.password"]) == ("others", "hunter2")


def test_a_first_import_creates_the_folder_of_specs(cluster: Cluster) -> None:
    folder = cluster.connect.folder / "connectors"
    folder.rmdir()
    cluster.hand.write()
    assert cluster.connect("import", "--all").stdout.startswith("nothing to import")
    folder.rmdir()
    cluster.create("a")
    cluster.create("b")
    refused = cluster.connect("import", "nobody")
    assert "error[import.missing]: nobody" in refused.stderr
    assert not folder.exists()

    done = cluster.connect("import", "a")
    assert done.returncode == 0, done.stderr
    assert "a: wrote connectors/a.yaml" in done.stdout
    assert "not imported: b (`connect import --all` imports them)" in done.stderr
    assert cluster.no_changes()


def test_specs_that_name_nothing_else_stay_an_error(cluster: Cluster) -> None:
    project = cluster.connect.folder / "connect.yaml"
    cluster.create("a")
    project.write_text(f"{project.read_text()}specs: [connectors/, gone/]\n")
    refused = cluster.connect("import", "a")
    assert (refused.returncode, "'gone/' does not exist" in refused.stderr) == (2, True)
    project.write_text(project.read_text().replace("[connectors/, gone/]", "['connectors/*.yaml']"))
    refused = cluster.connect("import", "a")
    assert "error[specs.no-folder]" in refused.stderr


def test_what_is_refused_leaves_no_file(cluster: Cluster) -> None:
    cluster.create("a")
    cluster.create("b")
    folder = cluster.connect.folder / "connectors"
    assert cluster.connect("import").returncode == 2
    missing = cluster.connect("import", "a", "nobody")
    assert missing.returncode == 2
    assert "error[import.missing]: nobody" in missing.stderr
    elsewhere = cluster.connect("import", "a", "--out", "elsewhere")
    assert elsewhere.returncode == 2
    assert "error[import.not-read]: a" in elsewhere.stderr
    assert not list(folder.iterdir())
    assert not (cluster.connect.folder / "elsewhere").exists()

    cluster.connect.write("connectors/a.yaml", "# mine\n")
    there = cluster.connect("import", "a", "b")
    assert there.returncode == 2
    assert "error[file.exists]" in there.stderr
    assert [file.name for file in folder.iterdir()] == ["a.yaml"]
    assert (folder / "a.yaml").read_text() == "# mine\n"
    assert cluster.connect("import", "a", "b", "--force").returncode == 0
    assert cluster.no_changes()


def test_all_leaves_out_and_names_what_no_spec_can_hold(cluster: Cluster) -> None:
    """The trap: one odd name refuses the import of hundreds of connectors."""
    for name in ("a", "..", " b", "orders.test", "connect"):
        cluster.create(name)
    before = cluster.configs()
    done = cluster.connect("import", "--all", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    files = {each["connector"]: each["file"] for each in answer["imported"]}
    assert sorted(files) == ["a", "connect", "orders.test"]
    assert [each["connector"] for each in answer["refused"]] == [" b", ".."]
    assert {each["code"] for each in answer["refused"]} == {"spec.bad-name"}
    assert answer["not_imported"] == [" b", ".."]
    assert "warning[spec.bad-name]: ..: " in done.stderr
    assert (files["a"], files["connect"][:19]) == ("connectors/a.yaml", "connectors/connect-")
    assert files["orders.test"].startswith("connectors/orders.test-")
    assert cluster.configs() == before
    assert cluster.no_changes()

    named = cluster.connect("import", "..")
    assert named.returncode == 2
    assert "error[spec.bad-name]: ..: " in named.stderr


def test_another_projects_connectors_stay_its_own(cluster: Cluster) -> None:
    cluster.create("theirs")
    assert cluster.connect("import", "theirs", "--json").returncode == 0
    project = cluster.connect.folder / "connect.yaml"
    project.write_text(project.read_text().replace("project: p", "project: q"))
    (cluster.connect.folder / "connectors" / "theirs.yaml").unlink()
    cluster.create("free")
    refused = cluster.connect("import", "theirs")
    assert refused.returncode == 2
    assert "error[import.other-project]: theirs" in refused.stderr
    done = cluster.connect("import", "--all", "--json")
    assert [each["connector"] for each in json.loads(done.stdout)["imported"]] == ["free"]
    assert cluster.no_changes()


def test_written_again_as_it_is_on_the_cluster(cluster: Cluster) -> None:
    cluster.create("a", file="/one")
    assert cluster.connect("import", "a").returncode == 0
    file = cluster.connect.folder / "connectors" / "a.yaml"
    file.write_text(f"{file.read_text()}lifecycle: {{prevent_delete: true}}\n")
    assert cluster.connect("apply", "--yes").returncode == 0
    cluster.create("a", file="/two")
    refused = cluster.connect("import", "a")
    assert "error[import.has-spec]: connectors/a.yaml:1:7" in refused.stderr
    assert cluster.connect("import", "a", "--force").returncode == 0
    assert "file: /two\n" in file.read_text()
    assert "prevent_delete: true\n" in file.read_text()
    assert cluster.no_changes()


def test_connectors_of_the_cluster_are_exported(on_kafka: Command, by_hand: ByHand) -> None:
    by_hand.config("a", token="hunter2")
    refused = on_kafka("export", "--live", "a")
    assert refused.returncode == 2
    assert "hunter2" not in refused.stdout + refused.stderr
    config = {"name": "a", "connector.class": "FileStreamSource", "topic": "lines"}
    done = on_kafka("export", "--live", "--show-secrets")
    assert json.loads(done.stdout) == {"name": "a", "config": config | {"token": "hunter2"}}
