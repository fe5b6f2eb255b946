"""Archives of plugins: unpacked as they are, and refused if they lead out or are bombs."""

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from connect_runtime.plugins import archives
from connect_runtime.plugins.archives import unpack
from connect_specs.diagnostics import Invalid
from support.maven_repository import tarred, zipped

FILES = {"plugin/lib/a.jar": b"jar of a", "plugin/LICENSE.txt": b"text"}
PACKERS = {"p.zip": zipped, "p.tar.gz": tarred, "p.TGZ": tarred}


def _unpacked(tmp_path: Path, name: str, content: bytes) -> dict[str, bytes]:
    archive, folder = tmp_path / "archive", tmp_path / "folder"
    archive.write_bytes(content)
    folder.mkdir()
    unpack(archive, folder, name)
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("name", PACKERS)
def test_files_are_unpacked(tmp_path: Path, name: str) -> None:
    assert _unpacked(tmp_path, name, PACKERS[name](FILES)) == FILES


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize(
    "path", ["../out.jar", "/tmp/out.jar", "a/../../out.jar", "a\\..\\out.jar", "C:out.jar"]
)
def test_a_path_that_leads_out_is_refused(tmp_path: Path, name: str, path: str) -> None:
    content = PACKERS[name]({"fine.jar": b"x", path: b"x"})
    with pytest.raises(Invalid) as error:
        _unpacked(tmp_path, name, content)
    assert "leads out of the folder" in error.value.why
    assert not list(tmp_path.parent.rglob("*out.jar"))


def _tar_of(*members: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return out.getvalue()


def _member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_tars_are_refused(tmp_path: Path, kind: bytes) -> None:
    """The trap: a link to a folder elsewhere, and then a file in it."""
    inner = tarfile.TarInfo("link/out.jar")
    inner.size = 1
    content = _tar_of(_member("link", kind, str(tmp_path)), inner)
    with pytest.raises(Invalid) as error:
        _unpacked(tmp_path, "p.tar.gz", content)
    assert "link is a link or a device" in error.value.why
    assert not (tmp_path / "out.jar").exists()


def test_links_in_zips_are_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc")
    with pytest.raises(Invalid) as error:
        _unpacked(tmp_path, "p.zip", out.getvalue())
    assert "link is a link or a device" in error.value.why


def _deflated(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize(("name", "pack"), [("p.zip", _deflated), ("p.tar.gz", tarred)])
def test_a_bomb_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    pack: Callable[[dict[str, bytes]], bytes],
) -> None:
    monkeypatch.setattr(archives, "_SMALL_BYTES", 1 << 20)
    content = pack({f"{number}.jar": bytes(1 << 20) for number in range(4)})
    with pytest.raises(Invalid) as error:
        _unpacked(tmp_path, name, content)
    assert "unpacks to far more than its size" in error.value.why
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.jar")) <= 2 << 20


def test_headers_that_would_fill_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: headers of a tar are read into memory, whatever the files weigh."""
    monkeypatch.setattr(archives, "_SMALL_BYTES", 1 << 20)
    headers = tarfile.TarInfo("x")
    headers.type, headers.size = tarfile.XHDTYPE, 64 << 20
    with pytest.raises(Invalid) as error:
        _unpacked(tmp_path, "p.tar.gz", _tar_of(headers))
    assert "unpacks to far more than its size" in error.value.why


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_FILES_MOST", 3)
    with pytest.raises(Invalid) as error:
        _unpacked(tmp_path, "p.zip", zipped({f"{number}.jar": b"" for number in range(4)}))
    assert "more than 3 files" in error.value.why


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("cut", [1, 2, 30])
def test_what_is_cut_short_or_something_else_is_refused(
    tmp_path: Path, name: str, cut: int
) -> None:
    content = PACKERS[name]({"a.jar": bytes(range(256)) * 50})
    with pytest.raises(Invalid):
        _unpacked(tmp_path, name, content[: len(content) // cut - 10])


@pytest.mark.parametrize("name", PACKERS)
def test_a_page_in_place_of_an_archive_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid) as error:
        _unpacked(tmp_path, name, b"<html>please log in</html>")
    assert "cannot be unpacked" in error.value.diagnostics[0].what


@pytest.mark.parametrize("twice", [("a", "a"), ("a", "a/b")])
def test_a_file_that_is_there_twice_is_refused(tmp_path: Path, twice: tuple[str, str]) -> None:
    members = [tarfile.TarInfo(name) for name in twice]
    with pytest.raises(Invalid) as error:
        _unpacked(tmp_path, "p.tar.gz", _tar_of(*members))
    assert "a file twice" in error.value.why
