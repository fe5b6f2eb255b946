"""Logins of Apache's basic-auth extension: the JAAS file that KAFKA_OPTS names, and its users."""

import os
from pathlib import Path

import httpx
import pytest

from connect_runtime.rest.password import (
    EXTENSION,
    Logins,
    make_password,
    read_password,
    users_file,
)
from connect_runtime.server import Runtime
from connect_runtime.settings.worker_config import from_properties
from connect_specs.diagnostics import Invalid
from support.broker import BrokerAddress

MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
SECRET = "hunter2-ökonom"


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """Java reads the file as ISO 8859-1, and escapes."""
    path = tmp_path / "users.properties"
    path.write_text(f"# of the team\nadmin={SECRET}\nci\\ bot : \\u0062ot\n", "latin-1")
    return path


def jaas_file(folder: Path, content: str) -> dict[str, str]:
    path = folder / "jaas.conf"
    path.write_text(content)
    return {"KAFKA_OPTS": f"-Xlog:gc -Djava.security.auth.login.config={path} -Da=b"}


@pytest.mark.parametrize(
    "text",
    [
        'KafkaConnect {{ {module} required file="{users}"; }};',
        "// KafkaConnect {{ other; }};\nKafkaClient {{ other.Module required a=b; }};\n"
        "/* one\nfor REST */\nKafkaConnect\n{{\n  {module} required\n  debug=true\n"
        '  file="{users}";\n}};\n',
    ],
)
def test_the_file_that_the_jaas_file_names(tmp_path: Path, users: Path, text: str) -> None:
    environment = jaas_file(tmp_path, text.format(module=MODULE, users=users))
    assert users_file(environment) == users


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "KAFKA_OPTS names no JAAS file"),
        ("KafkaClient { a.B required file=x; };", "needs a section KafkaConnect"),
        ("KafkaConnect { a.B required file=x; a.C required; };", "with one login module"),
        ("KafkaConnect { com.acme.Ldap required file=x; };", "must be PropertyFileLoginModule"),
        (f"KafkaConnect {{ {MODULE} required; }};", "with an option file"),
    ],
)
def test_another_login_is_refused(tmp_path: Path, content: str | None, problem: str) -> None:
    environment = {} if content is None else jaas_file(tmp_path, content)
    with pytest.raises(Invalid) as refused:
        users_file(environment)
    (found,) = refused.value.diagnostics
    assert found.where == "rest.extension.classes"
    assert problem in found.what


def test_who_is_admitted(tmp_path: Path, users: Path) -> None:
    folder = tmp_path / "data"
    make_password(folder)
    logins = Logins(folder, users)
    assert logins.admits("admin", SECRET)
    assert logins.admits("ci bot", "bot")
    assert logins.admits("connect", read_password(folder) or "")
    for user, password in (
        *(("admin", "bot"), ("admin", ""), ("", ""), ("nobody", "None"), ("connect", SECRET)),
        ("Admin", SECRET),
    ):
        assert not logins.admits(user, password), user


def test_users_are_read_again_when_the_file_changes(
    tmp_path: Path, users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logins = Logins(tmp_path / "data", users)
    users.write_text("admin=other-secret\n")
    assert logins.admits("admin", "other-secret")
    assert not logins.admits("admin", SECRET)
    # a file without users admits everybody in Apache's
    for broken in ("", "admin=\\u00zz"):
        users.write_text(broken)
        assert not logins.admits("admin", "other-secret")
        assert not logins.admits("admin", "")
    users.unlink()
    assert not logins.admits("admin", "other-secret")
    assert "secret" not in caplog.text
    users.write_text("admin=again\n")
    assert logins.admits("admin", "again")


def test_a_worker_with_apaches_extension(
    broker: BrokerAddress,
    unique: str,
    tmp_path: Path,
    users: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = f'KafkaConnect {{ {MODULE} required file="{users}"; }};'
    for name, value in jaas_file(tmp_path, text).items():
        monkeypatch.setitem(os.environ, name, value)
    worker = {
        "bootstrap.servers": broker.bootstrap_servers,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "listeners": "http://127.0.0.1:0",
        "rest.extension.classes": EXTENSION,
    }
    config, warnings = from_properties(worker, standalone=True, data_folder=tmp_path / "data")
    assert not [warning for warning in warnings if "extension" in warning]
    runtime = Runtime(config)
    runtime.start()
    try:
        with httpx.Client(base_url=runtime.url, trust_env=False) as client:
            assert client.get("/connectors").status_code == 401
            assert client.get("/connectors", auth=("admin", "wrong")).status_code == 401
            assert client.get("/connectors", auth=("admin", SECRET)).json() == []
    finally:
        runtime.stop()


def test_a_file_that_cannot_be_read_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Invalid) as refused:
        Logins(tmp_path, tmp_path / "none.properties")
    assert "none.properties cannot be read" in refused.value.diagnostics[0].what
