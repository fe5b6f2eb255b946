"""Reads `cluster.target` of connect.yaml: our runtime, or a Connect cluster's REST API."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from connect_specs.desired import RestTarget
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.documents import Map, Node, Scalar
from connect_specs.fields import Fields
from connect_specs.plain_text import EXAMPLES, duration_text, seconds_of
from connect_specs.text_files import read_text

SECONDS_MAX: Final = 86_400

_FILES: Final = ("ca_file", "cert_file", "key_file")
_FIELDS: Final = ("rest", "user", "password", "password_file", "headers", *_FILES, "timeouts")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# RFC 9110, without the characters that programs interpret differently
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?")


def read_target(node: Node | None, folder: Path, problems: list[Diagnostic]) -> RestTarget | None:
    """Returns None for our runtime, else a Connect cluster: a map with `rest`, or `rest: URL` as
    text.

    Files are relative to `folder`.
    """
    if node is None or (isinstance(node, Scalar) and node.text == "runtime"):
        return None
    if isinstance(node, Map):
        fields = Fields(node, _FIELDS, problems, code="project", noun="target")
        return _read_fields(fields, node, folder)
    text = node.text if isinstance(node, Scalar) else ""
    url = _url(text.removeprefix("rest:").strip()) if text.startswith("rest:") else None
    if url is None:
        problems.append(_bad_target(node))
    return RestTarget(_address(url)) if url else None


def _read_fields(fields: Fields, node: Map, folder: Path) -> RestTarget | None:
    address = fields.get("rest")
    url = _url(address.text) if isinstance(address, Scalar) else None
    if url is None:
        fields.problems.append(_bad_target(address or node))
    user, password = _login(fields, node, url, folder)
    headers = _headers(fields)
    if user is not None and any(name.lower() == "authorization" for name in headers):
        message = "'user' and the header Authorization exclude each other"
        fields.report("two-logins", "headers", message, "keep one of them")
    ca_file, cert_file, key_file = _files(fields, url, folder)
    connect_s, answer_s = _timeouts(fields)
    if url is None:
        return None
    return RestTarget(
        _address(url), user, password, headers, ca_file, cert_file, key_file, connect_s, answer_s
    )


def _bad_target(node: Node) -> Diagnostic:
    message = "the target must be 'runtime', or the address of a Connect cluster"
    hint = "write target: {rest: https://connect.example.com:8083}"
    return Diagnostic("project.bad-target", message, node.location, hint=hint)


def _url(text: str) -> SplitResult | None:
    try:
        url = urlsplit(text)
        port = url.port
        # Refuses names that no resolver takes: with a label that is empty or longer than 63 letters
        (url.hostname or "").encode("idna")
    except ValueError:
        return None
    plain = not url.query and not url.fragment and not re.search(r"[\s\x00-\x1f]", text)
    valid = url.scheme in ("http", "https") and bool(url.hostname) and port != 0 and plain
    return url if valid else None


def _address(url: SplitResult) -> str:
    return url.geturl().rstrip("/")


def _login(
    fields: Fields, node: Map, url: SplitResult | None, folder: Path
) -> tuple[str | None, str | None]:
    """Returns the user and the password, which need each other."""
    user = fields.text("user")
    password = fields.text("password")
    if fields.get("password_file") is not None:
        if fields.get("password") is not None:
            message = "'password' and 'password_file' exclude each other"
            fields.report("two-passwords", "password_file", message, "keep one")
        password = _password_of_file(fields, folder)
    has_user = "user" in node.names()
    has_password = not node.names().isdisjoint({"password", "password_file"})
    if has_password is not has_user:
        present, missing = ("a password", "'user'") if has_password else ("'user'", "a password")
        message = f"the target has {present} but not {missing}"
        hint = "write user: and password:, or leave both out"
        fields.report("half-login", node.location, message, hint)
    elif has_password and url is not None and "@" in url.netloc:
        message, hint = "the address contains a user, too", "remove it from the address"
        fields.report("two-logins", "rest", message, hint)
    if user and ":" in user:
        message = "'user' contains a colon, which basic authentication does not allow"
        fields.report("bad-value", "user", message, "use a name without a colon")
    return user, password


def _password_of_file(fields: Fields, folder: Path) -> str | None:
    """Returns the file's text without the line break that editors end it with."""
    path = _file(fields, "password_file", folder)
    if path is None:
        return None
    location = fields.location("password_file")
    try:
        text = read_text(path, "password_file")
    except Invalid as invalid:
        message = "'password_file' cannot be read"
        reason = "; ".join(problem.why or problem.what for problem in invalid.diagnostics)
        hint = "the path is relative to connect.yaml; name a file that can be read"
        fields.problems.append(Diagnostic("file.unreadable", message, location, reason, hint))
        return None
    password = re.sub(r"(?:\r\n|\n)\Z", "", text)
    if not password:
        message, hint = "'password_file' is an empty file", "write the password into it"
        fields.report("bad-value", location, message, hint)
    return password or None


def _headers(fields: Fields) -> dict[str, str]:
    inner = fields.inner("headers", None)
    headers: dict[str, str] = {}
    for key, value in inner.node.entries if inner.node else ():
        text = inner.text(key.text)
        if not _HEADER.fullmatch(key.text):
            message = f"{key.text!r} cannot be the name of a header"
            fields.report("bad-header", key.location, message, "use letters, digits and '-'")
        elif text is not None and not _HEADER_VALUE.fullmatch(text):
            message = f"the value of the header {key.text!r} is not one that HTTP allows"
            hint = "use printable ASCII characters, without a space at the ends"
            fields.report("bad-header", value.location, message, hint)
        elif text is not None:
            headers[key.text] = text
    return headers


def _files(fields: Fields, url: SplitResult | None, folder: Path) -> list[Path | None]:
    """Returns the certificate files, in the order of `_FILES`."""
    names = [field for field in _FILES if fields.get(field) is not None]
    if names and url is not None and url.scheme != "https":
        message, hint = f"{names[0]!r} is only for https", "write https:// in the address"
        fields.report("no-tls", names[0], message, hint)
    if "key_file" in names and "cert_file" not in names:
        message, hint = "'key_file' needs 'cert_file'", "add the key's certificate"
        fields.report("missing-field", "key_file", message, hint)
    return [_file(fields, field, folder) for field in _FILES]


def _file(fields: Fields, field: str, folder: Path) -> Path | None:
    node, text = fields.get(field), fields.text(field)
    if node is None or text is None:
        return None
    path = folder / text
    try:
        is_file = path.is_file()
    except (OSError, ValueError):
        is_file = False
    if not is_file:
        message, hint = f"{field!r} names no file", "paths are relative to connect.yaml"
        fields.report("missing-file", node.location, message, hint)
    return path if is_file else None


def _timeouts(fields: Fields) -> tuple[float, float]:
    seconds = {"connect": 5.0, "answer": 100.0}
    timeouts = fields.inner("timeouts", tuple(seconds))
    for field in seconds:
        node = timeouts.get(field)
        if node is None:
            continue
        number = seconds_of(node.text if isinstance(node, Scalar) else "") or 0.0
        if 0 < number <= SECONDS_MAX:
            seconds[field] = number
            continue
        message = f"{field!r} must be a duration above 0, at most {duration_text(SECONDS_MAX)}"
        fields.report("bad-timeout", node.location, message, f"write {EXAMPLES}")
    return seconds["connect"], seconds["answer"]
