"""Symbolic links below `specs`: followed, and never a reason to delete connectors silently."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.loader import load_specs
from connect_specs.project import load_project

Write = Callable[[str, str], None]
SPEC = "name: {}\nconfig: {{connector.class: X}}\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write_file("project/connect.yaml", "project: p\ncluster: {group.id: g}\n")
    write_file("project/connectors/a.yaml", SPEC.format("a"))
    return write_file


def project(tmp_path: Path) -> Project:
    return load_project(tmp_path / "project" / "connect.yaml")


def names(tmp_path: Path) -> list[str]:
    return list(load_specs(project(tmp_path)).connectors)


def wrong(tmp_path: Path) -> list[str]:
    with pytest.raises(Invalid) as caught:
        load_specs(project(tmp_path))
    assert all(each.hint for each in caught.value.diagnostics)
    return [_told(each) for each in caught.value.diagnostics]


def _told(each: Diagnostic) -> str:
    return f"{each.code} {each.where}"


SPECS = ["connectors", "connectors/**/*.yaml", "connectors/**", "**/*.yaml"]


@pytest.fixture(params=SPECS)
def specs(request: pytest.FixtureRequest, tmp_path: Path, write: Write) -> Path:
    """The folder `connectors` of a project whose `specs` name it in one of these ways."""
    text = f"project: p\ncluster: {{group.id: g}}\nspecs: ['{request.param}']\n"
    write("project/connect.yaml", text)
    return tmp_path / "project" / "connectors"


def test_a_link_to_a_folder_is_followed_inside_and_outside_the_project(
    tmp_path: Path, specs: Path, write: Write
) -> None:
    write("outside/deep/b.yaml", SPEC.format("b"))
    write("project/teams/c.yaml", SPEC.format("c"))
    (specs / "outside").symlink_to(tmp_path / "outside")
    (specs / "teams").symlink_to("../teams")
    (specs / "again").symlink_to("../teams")
    (specs / "d.yaml").symlink_to(tmp_path / "outside" / "deep" / "b.yaml")
    assert names(tmp_path) == ["a", "b", "c"]


def test_a_link_to_itself(tmp_path: Path, specs: Path) -> None:
    (specs / "loop").symlink_to("loop")
    (specs / "loop.yaml").symlink_to("loop.yaml")
    found = wrong(tmp_path)
    assert "file.bad-link connectors/loop.yaml" in found
    if "*.yaml" not in str(project(tmp_path).specs) or "**" in str(project(tmp_path).specs):
        assert "file.bad-link connectors/loop" in found


@pytest.mark.parametrize("target", [".", "..", "../connectors"])
def test_a_link_to_a_folder_above(tmp_path: Path, specs: Path, target: str) -> None:
    (specs / "up").symlink_to(target)
    assert wrong(tmp_path) == ["file.link-loop connectors/up"]


def test_two_folders_that_lead_to_each_other_end(tmp_path: Path, specs: Path, write: Write) -> None:
    write("one/b.yaml", SPEC.format("b"))
    write("two/c.yaml", SPEC.format("c"))
    (tmp_path / "one" / "two").symlink_to(tmp_path / "two")
    (tmp_path / "two" / "one").symlink_to(tmp_path / "one")
    (specs / "one").symlink_to(tmp_path / "one")
    (specs / "two").symlink_to(tmp_path / "two")
    assert names(tmp_path) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["gone", "gone.yaml", "v1.2"])
def test_a_link_to_nowhere(tmp_path: Path, specs: Path, name: str) -> None:
    (specs / name).symlink_to("/nowhere")
    assert wrong(tmp_path) == [f"file.bad-link connectors/{name}"]


def test_hidden_links_do_not_count(tmp_path: Path, specs: Path) -> None:
    """Editors keep their locks in links that lead nowhere."""
    (specs / ".#a.yaml").symlink_to("me@host.1234")
    assert names(tmp_path) == ["a"]


def test_what_a_glob_does_not_name_may_be_a_link_to_nowhere(tmp_path: Path, write: Write) -> None:
    write(
        "project/connect.yaml", "project: p\ncluster: {group.id: g}\nspecs: ['connectors/*.yaml']"
    )
    (tmp_path / "project" / "connectors" / "notes.txt").symlink_to("/nowhere")
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("entry", ["link", "link.yaml", "link/", "link/*.yaml"])
@pytest.mark.parametrize("target", ["/nowhere", "self"])
def test_an_entry_that_is_a_link_to_nowhere(
    tmp_path: Path, write: Write, entry: str, target: str
) -> None:
    text = f"project: p\ncluster: {{group.id: g}}\nspecs: [connectors, '{entry}']\n"
    write("project/connect.yaml", text)
    name = entry.partition("/")[0]
    (tmp_path / "project" / name).symlink_to(name if target == "self" else target)
    assert wrong(tmp_path) == [f"file.bad-link {name}"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("values", "file.bad-link values"),
        ("values/default.yaml", "file.unreadable values/default.yaml"),
        ("consequences.yaml", "file.unreadable consequences.yaml"),
    ],
)
@pytest.mark.parametrize("target", ["/nowhere", "self"])
def test_other_files_that_are_links_to_nowhere(
    tmp_path: Path, write: Write, name: str, told: str, target: str
) -> None:
    path = tmp_path / "project" / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(path if target == "self" else target)
    assert wrong(tmp_path) == [told]


def test_a_pipe_is_no_spec(tmp_path: Path, specs: Path) -> None:
    """To read it would never end."""
    os.mkfifo(specs / "b.yaml")
    assert wrong(tmp_path) == ["file.unreadable connectors/b.yaml"]


@pytest.mark.parametrize("name", ["v.yaml", "more"])
def test_a_link_into_values_is_not_passed_over(
    tmp_path: Path, specs: Path, write: Write, name: str
) -> None:
    """What is in values/ is no spec, so its connector would be deleted."""
    write("project/values/default.yaml", "a: b\n")
    write("project/values/more/v.yaml", SPEC.format("v"))
    target = "values/more/v.yaml" if name == "v.yaml" else "values/more"
    (specs / name).symlink_to(Path("..", target))
    place = "connectors/v.yaml" if name == "v.yaml" else "connectors/more/v.yaml"
    assert wrong(tmp_path) == [f"project.specs-in-values {place}"]


def test_all_is_beside_the_connect_yaml_that_a_link_leads_to(tmp_path: Path, write: Write) -> None:
    write("project/connect.yaml", "project: p\ncluster: {group.id: 'g-{{ team }}'}\n")
    write("project/values/default.yaml", "team: a\n")
    write("project/connectors/a.yaml", "name: '{{ team }}'\nconfig: {connector.class: X}\n")
    write("other/values/default.yaml", "team: b\n")
    link = tmp_path / "other" / "connect.yaml"
    link.symlink_to("../project/connect.yaml")
    linked = load_project(link)
    assert (linked.group_id, list(load_specs(linked).connectors)) == ("g-a", ["a"])
