"""Loading a project's spec files: which ones, in any order, and no secret in what is said."""

from __future__ import annotations

import json
import os
import string
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid, Location
from connect_specs.loader import load_specs
from connect_specs.plain_text import render_diagnostics
from connect_specs.spec_files import find_policy_files
from support.projects import project_of
from support.spec_files import load_connectors

Write = Callable[[str, str], Path]
SPEC = "name: {}\nconfig: {{connector.class: X}}\n"


def project(folder: Path, *specs: str) -> Project:
    return project_of("test", name="test", folder=folder, specs=specs or (".",))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write_file


def codes(caught: pytest.ExceptionInfo[Invalid]) -> list[str]:
    return [found.code for found in caught.value.diagnostics]


def test_hidden_files_other_endings_and_connect_yaml_are_no_specs(
    tmp_path: Path, write: Write
) -> None:
    write("connect.yaml", "project: x\n")
    write(".hidden.yaml", "[")
    write(".connect/data.json", "[")
    write("README.md", "[")
    write("a.YAML", SPEC.format("a"))
    write("deep/.git/x.yaml", "[")
    write("deep/er/b.yml", SPEC.format("b"))
    assert list(load_specs(project(tmp_path)).connectors) == ["a", "b"]
    # a hidden file that is named counts
    write(".shown.yaml", SPEC.format("c"))
    assert list(load_specs(project(tmp_path, ".shown.yaml")).connectors) == ["c"]


def test_a_file_counts_once_however_often_it_is_named(tmp_path: Path, write: Write) -> None:
    write("connectors/a.yaml", SPEC.format("a"))
    (tmp_path / "link").symlink_to("connectors")
    named = project(
        tmp_path, "connectors/", "connectors/a.yaml", "*/*.yaml", "./connectors", "link"
    )
    assert list(load_specs(named).connectors) == ["a"]


def test_specs_outside_of_the_folder_are_named_from_it(tmp_path: Path, write: Write) -> None:
    write("shared/a.yaml", "name: a\n")
    (tmp_path / "team").mkdir()
    with pytest.raises(Invalid) as caught:
        load_specs(project(tmp_path / "team", "../shared"))
    assert str(caught.value.diagnostics[0].where) == "../shared/a.yaml:1:1"


def test_a_name_with_glob_characters_is_a_name_first(tmp_path: Path, write: Write) -> None:
    write("a[1].yaml", SPEC.format("a"))
    assert list(load_specs(project(tmp_path, "a[1].yaml")).connectors) == ["a"]


def test_what_names_nothing_is_never_an_empty_project(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        load_specs(project(tmp_path, "connectors/", "x/*.yaml"))
    assert codes(caught) == ["project.missing-specs", "project.missing-specs"]
    assert caught.value.exit_code is ExitCode.INVALID


def test_an_empty_folder_is_an_empty_project(tmp_path: Path) -> None:
    assert load_specs(project(tmp_path, ".")).connectors == {}


def test_a_folder_that_cannot_be_read_is_an_error(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("connectors/secret/a.yaml", SPEC.format("a"))
    scandir = os.scandir

    def refusing(path: str) -> object:
        if Path(path).name == "secret":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(Invalid) as caught:
        load_specs(project(tmp_path, "connectors"))
    (problem,) = caught.value.diagnostics
    assert (problem.code, str(problem.where)) == ("file.unreadable", "connectors/secret")


def test_a_link_to_nowhere_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("gone.yaml")
    with pytest.raises(Invalid) as caught:
        load_specs(project(tmp_path))
    assert render_diagnostics(caught.value.diagnostics) == (
        "error[file.bad-link]: a.yaml: the symbolic link points to gone.yaml, which cannot "
        "be read\n"
        "  why: No such file or directory\n"
        "  hint: correct or remove the link; specs behind it would count as deleted\n"
    )


def test_encodings(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbf" + SPEC.format("bom").encode())
    latin = "name=latin\nconnector.class=X\nx=é\n"
    (tmp_path / "b.properties").write_bytes(latin.encode("latin-1"))
    (tmp_path / "c.properties").write_text(latin.replace("latin", "utf"), encoding="utf-8")
    found = load_specs(project(tmp_path)).connectors
    assert list(found) == ["bom", "latin", "utf"]
    assert found["latin"].config["x"] == found["utf"].config["x"] == "é"
    (tmp_path / "d.yaml").write_bytes("é: 1\nab: é\n".encode()[:-3] + b"\xe9\n")
    with pytest.raises(Invalid) as caught:
        load_specs(project(tmp_path))
    (problem,) = caught.value.diagnostics
    assert (problem.code, str(problem.where)) == ("file.encoding", "d.yaml:2:5")


def test_json_in_a_properties_file_as_connect_takes_it(tmp_path: Path, write: Write) -> None:
    text = '\n {"name": "a", "config": {"connector.class": "X"}, "initial_state": "stopped"}'
    path = write("a.properties", text)
    found = load_connectors([path], tmp_path)
    assert found["a"].state == "stopped"


def test_key_locations(tmp_path: Path, write: Write) -> None:
    write("a.yaml", "name: a\nconfig:\n  connector.class: X\n  topics: t\n")
    where = load_specs(project(tmp_path)).connectors["a"].key_locations
    assert {key: str(place) for key, place in where.items()} == {
        "name": "a.yaml:1:7",
        "connector.class": "a.yaml:3:3",
        "topics": "a.yaml:4:3",
    }


SECRET = "hunter2"
WITH_SECRET = [
    ("a.yaml", f"name: a\nconfig: {{password: [{SECRET}, 'x,{SECRET}', {{}}]}}"),
    ("a.yaml", f"name: a\nconfig: {{password: {{a: {SECRET}}}}}"),
    ("a.yaml", f"name: a\nconfig: {{password: {SECRET}, password: {SECRET}}}"),
    ("a.yaml", f"name: a\nconfig:\n  password: %{SECRET}\n"),
    ("a.yaml", f"name: a\nconfig:\n  password: {SECRET}: {SECRET}\n"),
    ("a.yaml", f"name: a\nconfig:\n  password: '{SECRET}\n"),
    ("a.yaml", f"name: a\nconfig: {SECRET}\nstate: {SECRET}\nlifecycle: {SECRET}"),
    ("a.json", f'{{"name": "a", "config": {{"password": "{SECRET}\n"}}}}'),
    ("a.json", f'{{"name": "a", "config": {{"password": {SECRET}}}}}'),
    ("a.properties", f"password={SECRET}\\u12\npassword={SECRET}\n"),
]


@pytest.mark.parametrize(("name", "text"), WITH_SECRET)
def test_no_value_of_a_config_is_in_what_is_said(
    tmp_path: Path, write: Write, name: str, text: str
) -> None:
    write(name, text)
    with pytest.raises(Invalid) as caught:
        load_specs(project(tmp_path))
    assert SECRET not in render_diagnostics(caught.value.diagnostics)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ('"a\\tb"', "spec.bad-name"),
        ('"a\\u0085"', "spec.bad-name"),
        ('""', "spec.bad-name"),
        ("", "spec.bad-name"),
        ("[a]", "spec.bad-name"),
        ("'a '", "spec.bad-name"),
        ("'..'", "spec.bad-name"),
        ("'\u3000a'", "spec.bad-name"),
        ("a b/é?.%20", None),
        ("007", None),
        ("on", None),
    ],
)
def test_names(tmp_path: Path, write: Write, name: str, code: str | None) -> None:
    write("a.yaml", f"name: {name}\nconfig: {{connector.class: X}}\n")
    if code is None:
        assert list(load_specs(project(tmp_path)).connectors) == [name]
        return
    with pytest.raises(Invalid) as caught:
        load_specs(project(tmp_path))
    assert codes(caught) == [code]


NAMES = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=7)


@given(names=NAMES, order=st.randoms(use_true_random=False), break_one=st.booleans())
def test_the_order_of_files_does_not_matter(
    names: list[str], order: object, break_one: bool
) -> None:
    """Same files under any listing: the same connectors, or the same diagnostics."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = []
        for index, name in enumerate(names):
            path = folder / f"{index}.json"
            config = {"connector.class": "X", "n": None if break_one else str(index)}
            path.write_text(json.dumps({"name": name, "config": config}))
            files.append(path.name)

        def outcome(entries: list[str]) -> object:
            try:
                return load_specs(project(folder, *entries))
            except Invalid as invalid:
                return invalid.diagnostics

        shuffled = list(files)
        order.shuffle(shuffled)  # type: ignore[attr-defined]
        assert outcome(shuffled) == outcome(files) == outcome(["."])


KEYS = st.text(string.ascii_letters + "._-", min_size=1, max_size=8).filter(
    lambda key: key not in ("name", "connector.class")
)


@given(st.dictionaries(KEYS, st.text(string.printable + "é😀", max_size=10), max_size=6))
def test_every_format_gives_the_same_connector(config: dict[str, str]) -> None:
    config = {"name": "c", "connector.class": "X", **config}

    def quoted(text: str) -> str:
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

    def escaped(text: str) -> str:
        units = text.encode("utf-16-be").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    lines = [f"  {quoted(key)}: {quoted(value)}\n" for key, value in config.items()]
    texts = {
        "flat.json": json.dumps(config),
        "post.json": json.dumps({"name": "c", "config": config}),
        "a.properties": "".join(f"{escaped(k)}={escaped(v)}\n" for k, v in config.items()),
        "a.yaml": "name: c\nconfig:\n" + "".join(lines),
    }
    with TemporaryDirectory() as temporary:
        for name, text in texts.items():
            path = Path(temporary, name)
            path.write_text(text, encoding="utf-8")
            (found,) = load_connectors([path], Path(temporary)).values()
            assert found.config == config, name


def test_render_diagnostics() -> None:
    place = Location("a.yaml", 3, 5)
    first = Diagnostic("a.b", "what", place, why="one\ntwo", hint="do it")
    rest = [replace(first, where="orders", why="", hint=""), Diagnostic("c", "x\n\ny\x1b")]
    assert render_diagnostics([first, *rest]) == (
        "error[a.b]: a.yaml:3:5: what\n"
        "  why: one\n"
        "       two\n"
        "  hint: do it\n"
        "error[a.b]: orders: what\n"
        "error[c]: x\n"
        "\n"
        "    y\\u001b\n"
    )
    assert render_diagnostics([]) == ""


def test_policies_are_no_specs_and_must_exist(tmp_path: Path, write: Write) -> None:
    write("a.yaml", SPEC.format("a"))
    inside = write("policies/deep/rules.yaml", "rules: []\n")
    alone = write("more.yml", "rules: []\n")
    with_policies = replace(project(tmp_path), policies=("policies/", "*.yml"))
    problems: list[Diagnostic] = []
    assert find_policy_files(with_policies, problems) == (alone, inside)
    assert problems == []
    assert list(load_specs(with_policies).connectors) == ["a"]
    place = Location("connect.yaml", 7, 3)
    missing = replace(with_policies, policies=("gone/",), policies_locations={"gone/": place})
    (tmp_path / "more.yml").unlink()
    inside.unlink()
    with pytest.raises(Invalid) as caught:
        load_specs(missing)
    assert codes(caught) == ["project.missing-policies"]
    assert caught.value.diagnostics[0].where == place


def test_renamed_from(tmp_path: Path, write: Write) -> None:
    write("a.yaml", f"{SPEC.format('new')}renamed_from: old\n")
    found = load_specs(project(tmp_path)).connectors["new"]
    assert found.renamed_from == "old"
    assert str(found.renamed_from_where) == "a.yaml:3:15"


@pytest.mark.parametrize(
    ("name", "text", "warned"),
    [
        ("a.yaml", "", True),
        ("a.yaml", "# config: {}\n\n", True),
        ("a.yaml", "---\n# none\n---\n---\n", True),
        ("a.properties", "# name=a\n", True),
        ("a.yaml", "---\n---\n" + SPEC.format("a") + "---\n", False),
        ("a.properties", "name=a\nconnector.class=X\n", False),
    ],
)
def test_a_file_without_a_spec_is_a_warning(
    tmp_path: Path, write: Write, name: str, text: str, warned: bool
) -> None:
    """Emptied by accident, it would read as a wish to delete its connectors."""
    write(f"specs/{name}", text)
    found = load_specs(project(tmp_path, "specs/"))
    expected = [("spec.empty-file", f"specs/{name}:1:1")] if warned else []
    assert [(each.code, str(each.where)) for each in found.warnings] == expected


def test_no_file_at_all_is_a_warning(tmp_path: Path, write: Write) -> None:
    write("specs/a.yaml.txt", SPEC.format("a"))
    found = load_specs(project(tmp_path, "specs/"))
    assert [each.code for each in found.warnings] == ["project.no-specs"]


def test_a_mistyped_name_of_an_environment_is_a_warning(tmp_path: Path, write: Write) -> None:
    write("values/default.yaml", "topic: t\nregion: eu\n")
    write("values/prod.yaml", "region: us\ntopik: u\nonly_here: 1\nregions: [us]\n")
    write("specs/a.yaml", SPEC.format("{{ topic }}"))
    found = load_specs(replace(project(tmp_path, "specs/"), env="prod"))
    assert render_diagnostics(found.warnings, "warning") == (
        "warning[values.unknown-name]: values/prod.yaml:2:1: "
        "values/default.yaml has no name 'topik'\n"
        "  hint: did you mean 'topic'?\n"
    )


def test_what_a_template_leaves_out_is_no_empty_file(tmp_path: Path, write: Write) -> None:
    write("values/default.yaml", "on: false\n")
    write("specs/a.yaml", "{% if on %}\n" + SPEC.format("a") + "{% endif %}\n")
    assert load_specs(project(tmp_path, "specs/")).warnings == ()


ORDERED = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaConnector
metadata:
  name: {name}
  annotations:
    strimzi.io/pause-reconciliation: "{switch}"
    strimzi.io/connector-offsets: alter
    strimzi.io/restart: "{switch}"
    strimzi.io/restart-task: "0"
    example.com/owner: orders
spec:
  class: X
  autoRestart: {{enabled: {switch}}}
  listOffsets: {{toConfigMap: {{name: a}}}}
  alterOffsets: {{fromConfigMap: {{name: a}}}}
"""


def test_orders_to_strimzis_operator_are_reported_once(tmp_path: Path, write: Write) -> None:
    """However many resources have them, and none makes a resource unreadable."""
    for name in ("a", "b", "c"):
        write(f"{name}.yaml", ORDERED.format(name=name, switch="true"))
    desired = load_specs(project(tmp_path))
    assert list(desired.connectors) == ["a", "b", "c"]
    places = {each.code: (str(each.where), each.why) for each in desired.warnings}
    assert len(desired.warnings) == len(places)
    assert places == {
        f"strimzi.operator-{order}": (f"a.yaml:{place}", f"also at b.yaml:{place}, c.yaml:{place}")
        for order, place in {
            "pause-reconciliation": "6:5",
            "connector-offsets": "7:5",
            "restart": "8:5",
            "restart-task": "9:5",
            "autoRestart": "13:3",
            "listOffsets": "14:3",
            "alterOffsets": "15:3",
        }.items()
    }
    assert all(each.severity == "warning" and each.hint for each in desired.warnings)


def test_orders_that_are_switched_off_are_not_reported(tmp_path: Path, write: Write) -> None:
    write("a.yaml", ORDERED.format(name="a", switch="false"))
    codes = {each.code for each in load_specs(project(tmp_path)).warnings}
    assert codes.isdisjoint(
        f"strimzi.operator-{order}" for order in ("pause-reconciliation", "restart", "autoRestart")
    )


def test_an_exported_list_is_read(tmp_path: Path, write: Write) -> None:
    bodies = [{"name": name, "config": {"connector.class": "X"}} for name in ("a", "b")]
    write("all.json", json.dumps(bodies))
    assert list(load_specs(project(tmp_path)).connectors) == ["a", "b"]
    write("all.json", "[]")
    assert [each.code for each in load_specs(project(tmp_path)).warnings] == ["spec.empty-file"]
