"""The examples of docs/specs.md are files that load, and say what the text around them says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from connect_specs.desired import Project
from connect_specs.loader import load_specs
from connect_specs.project import load_project

PAGE = Path(__file__).parents[2] / "docs" / "specs.md"
VARIABLES = {"KAFKA_PASSWORD": "x", "CONNECT_PASSWORD": "x"}


def examples(section: str) -> list[tuple[str, str]]:
    """The files of the examples below a heading, with their texts."""
    (body,) = re.findall(rf"^#+ {section}\n(.*?)(?=^#+ |\Z)", without_code_headings(), re.M | re.S)
    return re.findall(r"^```yaml\n# (\S+)\n(.*?)^```", body.replace("\x00", "#"), re.M | re.S)


def without_code_headings() -> str:
    return re.sub(r"(?<=```yaml\n)#", "\x00", PAGE.read_text())


def project(folder: Path, env: str | None = None) -> Project:
    return load_project(folder / "connect.yaml", env, variables=VARIABLES)


def write(folder: Path, *files: tuple[str, str]) -> None:
    for name, text in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_connect_yaml(tmp_path: Path) -> None:
    smallest, everything = examples("connect.yaml")
    write(tmp_path, smallest)
    least = project(tmp_path)
    assert (least.kafka, least.target, least.specs) == (None, None, ("connectors/",))
    write(tmp_path, everything)
    most = project(tmp_path)
    assert most.kafka is not None
    assert 'password="x";' in most.kafka["sasl.jaas.config"]
    assert (most.policies, most.warnings) == (("policies/",), ())


def test_the_target(tmp_path: Path) -> None:
    (example,) = examples("A Connect cluster as the target")
    for name in re.findall(r"certs/\S+", example[1]):
        write(tmp_path, (name, "x"))
    write(tmp_path, example)
    target = project(tmp_path).target
    assert target is not None
    # the page calls these the defaults
    assert (target.connect_s, target.answer_s) == (5.0, 100.0)
    assert target.key_file == tmp_path.resolve() / "certs/client.key"


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("A spec", ["orders-archive"]),
        ("Pins", ["everything-again", "from-a-file", "only-new", "some-partitions"]),
        ("Renames", ["orders-archive-v2"]),
    ],
)
def test_specs(tmp_path: Path, section: str, names: list[str]) -> None:
    write(tmp_path, examples("connect.yaml")[0], *examples(section))
    assert list(load_specs(project(tmp_path)).connectors) == names


def test_environments(tmp_path: Path) -> None:
    write(tmp_path, *examples("Environments"))
    prod = project(tmp_path, "prod")
    assert (prod.group_id, prod.kafka) == (
        "orders-prod",
        {"bootstrap.servers": "kafka.prod:9092"},
    )
    connectors = load_specs(prod).connectors
    assert list(connectors) == ["orders-asia", "orders-eu", "orders-us"]
    assert connectors["orders-eu"].config["file"] == "/data/eu.txt"
