"""What ends how: exit codes, where errors are drawn, and what they never show."""

import errno
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from connect_reconciler.cli import entry
from connect_specs.diagnostics import Diagnostic, ExitCode, Failed, Invalid, Stale, Unreachable
from support.command import CONNECT, Command


@pytest.fixture
def raises(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Has the command raise an error."""

    def put(error: BaseException) -> None:
        def raise_error(argv: list[str]) -> int:
            raise error

        monkeypatch.setattr(entry, "_invoke", raise_error)

    return put


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Failed(Diagnostic("x", "x")), ExitCode.FAILED),
        (Invalid(Diagnostic("x", "x")), ExitCode.INVALID),
        (Unreachable(Diagnostic("x", "x")), ExitCode.UNREACHABLE),
        (Stale(Diagnostic("x", "x")), ExitCode.STALE),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (BrokenPipeError(), ExitCode.FAILED),
    ],
)
def test_exit_codes(
    error: BaseException,
    code: ExitCode,
    raises: Callable[[BaseException], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    raises(error)
    monkeypatch.setattr(entry, "_broken_pipe", lambda: ExitCode.FAILED)
    assert entry.run(["plan"]) == code
    assert capsys.readouterr().out == ""


def test_a_bug_is_one_line_and_a_file_and_shows_no_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def raise_error(argv: list[str]) -> int:
        secret = "".join(("hunter", "2"))
        try:
            raise ValueError(f"password={secret}")
        except ValueError as error:
            raise TypeError(secret) from error

    monkeypatch.chdir(tmp_path)
    (tmp_path / ".connect").mkdir()
    monkeypatch.setattr(entry, "_invoke", raise_error)
    assert entry.run(["plan"]) == ExitCode.FAILED
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "a bug in connect: TypeError at test_errors.py:" in shown.err
    assert "hunter2" not in shown.err
    (report,) = (tmp_path / ".connect").iterdir()
    assert str(report) in shown.err
    told = report.read_text()
    assert told.count("Traceback") == 2
    assert "builtins.ValueError\n" in told and "builtins.TypeError\n" in told
    assert "hunter2" not in told
    assert report.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("error", "said", "hint"),
    [
        (
            OSError(errno.EROFS, os.strerror(errno.EROFS), "/srv/p/.connect"),
            "/srv/p/.connect: a file cannot be written",
            "allow this user to write there",
        ),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "cannot be written", "free some space"),
        (
            OSError(errno.EEXIST, os.strerror(errno.EEXIST), Path("/srv/p/.connect")),
            "/srv/p/.connect: a file cannot be written",
            "move away what is in their place",
        ),
    ],
)
def test_a_file_that_cannot_be_written_is_not_a_bug(
    error: OSError,
    said: str,
    hint: str,
    raises: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    raises(error)
    assert entry.run(["plan"]) == ExitCode.FAILED
    shown = capsys.readouterr().err
    assert shown.startswith("error[file.unwritable]: ")
    assert said in shown and hint in shown and os.strerror(error.errno or 0) in shown


def test_an_error_about_an_open_file_that_is_a_number_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "_invoke", lambda argv: os.stat(9999))
    assert entry.run(["plan"]) == ExitCode.FAILED
    assert "OSError at test_errors.py:" in capsys.readouterr().err


def test_a_current_folder_that_was_removed_is_no_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert entry.run(["validate"]) == ExitCode.FAILED
    told = capsys.readouterr().err
    assert told.startswith("error[usage]: the current folder was removed\n  hint: ")


def test_a_plugin_that_ends_the_process_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "_invoke", lambda argv: sys.exit(0))
    assert entry.run(["validate"]) == ExitCode.FAILED
    assert "SystemExit at test_errors.py:" in capsys.readouterr().err


def test_a_bug_is_told_although_its_report_cannot_be_written(
    raises: Callable[[BaseException], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    raises(TypeError())
    monkeypatch.setattr("tempfile.mkstemp", full)
    assert entry.run(["plan"]) == ExitCode.FAILED
    assert "a bug in connect: TypeError at test_errors.py:" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_noise(connect: Command) -> None:
    connect("init")
    script = "import os; os.read(0, 1); os.close(0)"
    piped = subprocess.Popen(
        [*CONNECT, "validate", "--json"],
        cwd=connect.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    subprocess.run([sys.executable, "-c", script], stdin=piped.stdout, check=True)
    _, errors = piped.communicate(timeout=30)
    assert errors == b""
    assert piped.returncode in (0, 1)


@pytest.mark.parametrize(("closed", "words", "code"), [("2>&-", "nonsense", 2), (">&-", "init", 0)])
def test_a_stream_that_is_closed_is_no_bug(
    connect: Command, closed: str, words: str, code: int
) -> None:
    """The trap: Python has None in its place, and the next socket gets its number."""
    command = f"{shlex.join(CONNECT)} {words} {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=connect.folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_an_output_that_is_full_is_no_bug(connect: Command) -> None:
    """The trap: with --json the error of a full stdout goes there, too."""
    command = [*CONNECT, "version", "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=connect.folder, stdout=full, stderr=subprocess.PIPE)
    told = done.stderr.decode()
    assert (done.returncode, "Traceback" in told) == (1, False)
    assert "error[file.unwritable]: a file, or the output, cannot be written" in told


def test_the_readme_has_the_one_table_of_exit_codes() -> None:
    """The trap: 2 is what argument parsers exit with, and what Terraform calls changes."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    table = re.findall(r"^\| (\d+) \| ", readme, re.MULTILINE)
    assert [int(code) for code in table] == list(ExitCode)
    assert (ExitCode.INVALID, ExitCode.CHANGES) == (2, 4)
