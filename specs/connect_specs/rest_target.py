"""Reads `cluster.target` of connect.yaml: our runtime, or a Connect cluster's REST API."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from connect_specs.desired import RestTarget
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.durations import EXAMPLES, duration_text, seconds_of
from connect_specs.fields import as_map, as_text, check_fields, place_of
from connect_specs.nodes import Map, Node, Scalar
from connect_specs.text_files import read_text

SECONDS_MAX = 86_400

_CODE = "project"
_FILES = ("ca_file", "cert_file", "key_file")
_FIELDS = ("rest", "user", "password", "password_file", "headers", *_FILES, "timeouts")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# what a header may hold (RFC 9110), without what programs interpret differently
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?")


def read_target(node: Node | None, folder: Path, problems: list[Diagnostic]) -> RestTarget | None:
    """Returns None for our runtime, else a Connect cluster: a map with `rest`, or `rest: URL` as
    text.

    Files are relative to `folder`.
    """
    if node is None or (isinstance(node, Scalar) and node.text == "runtime"):
        return None
    if isinstance(node, Map):
        check_fields(node, _FIELDS, _CODE, "target", problems)
        rest = node.get("rest")
        url = isinstance(rest, Scalar) and _url(rest.text)
        where = node.where if rest is None else rest.where
    else:
        text = node.text if isinstance(node, Scalar) else ""
        url = text.startswith("rest:") and _url(text.removeprefix("rest:").strip())
        where = node.where
    if not url:
        what = "the target must be 'runtime', or the address of a Connect cluster"
        hint = "write target: {rest: https://connect.example.com:8083}"
        problems.append(Diagnostic("project.bad-target", what, where, hint=hint))
    if not isinstance(node, Map):
        return RestTarget(url.geturl().rstrip("/")) if url else None
    user, password = _login(node, url or None, folder, problems)
    headers = _headers(node, problems)
    if user is not None and any(name.lower() == "authorization" for name in headers):
        what, hint = "'user' and the header Authorization exclude each other", "keep one of them"
        where = place_of(node, "headers")
        problems.append(Diagnostic("project.two-logins", what, where, hint=hint))
    ca_file, cert_file, key_file = _files(node, url or None, folder, problems)
    connect_s, answer_s = _timeouts(node, problems)
    if not url:
        return None
    address = url.geturl().rstrip("/")
    return RestTarget(
        address, user, password, headers, ca_file, cert_file, key_file, connect_s, answer_s
    )


def _url(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        port = parts.port
        # Refuses what no resolver takes: a part of the name that is empty or longer than 63 letters
        (parts.hostname or "").encode("idna")
    except ValueError:
        return None
    plain = not parts.query and not parts.fragment and not re.search(r"[\s\x00-\x1f]", text)
    good = parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and plain
    return parts if good else None


def _login(
    node: Map, url: SplitResult | None, folder: Path, problems: list[Diagnostic]
) -> tuple[str | None, str | None]:
    """Returns the user and the password, which need each other."""
    user = _text(node, "user", problems)
    password = _text(node, "password", problems)
    if node.get("password_file") is not None:
        found = _password_of_file(node, folder, problems)
        if node.get("password") is not None:
            what = "'password' and 'password_file' exclude each other"
            where = place_of(node, "password_file")
            problems.append(Diagnostic("project.two-passwords", what, where, hint="keep one"))
        password = found
    has_password = not node.names().isdisjoint({"password", "password_file"})
    if has_password is not ("user" in node.names()):
        given, missing = ("a password", "'user'") if has_password else ("'user'", "a password")
        what = f"the target has {given} but not {missing}"
        hint = "write user: and password:, or leave both out"
        problems.append(Diagnostic("project.half-login", what, node.where, hint=hint))
    elif has_password and url is not None and "@" in url.netloc:
        what, hint = "the address contains a user, too", "remove it from the address"
        problems.append(Diagnostic("project.two-logins", what, place_of(node, "rest"), hint=hint))
    if user and ":" in user:
        what = "'user' contains a colon, which basic authentication does not allow"
        hint = "use a name without a colon"
        problems.append(Diagnostic("project.bad-value", what, place_of(node, "user"), hint=hint))
    return user, password


def _password_of_file(node: Map, folder: Path, problems: list[Diagnostic]) -> str | None:
    """Returns the file's text without the line break that editors end it with."""
    path = _file(node, "password_file", folder, problems)
    if path is None:
        return None
    try:
        text = read_text(path, "password_file")
    except Invalid as invalid:
        what = "'password_file' cannot be read"
        why = "; ".join(each.why or each.what for each in invalid.diagnostics)
        where = place_of(node, "password_file")
        hint = "the path is relative to connect.yaml; name a file that can be read"
        problems.append(Diagnostic("file.unreadable", what, where, why, hint))
        return None
    password = re.sub(r"(?:\r\n|\n)\Z", "", text)
    if not password:
        what, where = "'password_file' is an empty file", place_of(node, "password_file")
        hint = "write the password into it"
        problems.append(Diagnostic("project.bad-value", what, where, hint=hint))
    return password or None


def _headers(node: Map, problems: list[Diagnostic]) -> dict[str, str]:
    given = node.get("headers")
    fields = None if given is None else as_map(given, "headers", _CODE, problems)
    found: dict[str, str] = {}
    for key, value in fields.entries if fields else ():
        text = as_text(value, key.text, _CODE, problems)
        if not _HEADER.fullmatch(key.text):
            what = f"{key.text!r} cannot be the name of a header"
            hint = "use letters, digits and '-'"
            problems.append(Diagnostic("project.bad-header", what, key.where, hint=hint))
        elif text is not None and not _HEADER_VALUE.fullmatch(text):
            what = f"the value of the header {key.text!r} is not one that HTTP allows"
            hint = "use printable ASCII characters, without a space at the ends"
            problems.append(Diagnostic("project.bad-header", what, value.where, hint=hint))
        elif text is not None:
            found[key.text] = text
    return found


def _files(
    node: Map, url: SplitResult | None, folder: Path, problems: list[Diagnostic]
) -> list[Path | None]:
    """Returns the certificate files, in the order of `_FILES`."""
    given = [field for field in _FILES if node.get(field) is not None]
    if given and url is not None and url.scheme != "https":
        what, hint = f"{given[0]!r} is only for https", "write https:// in the address"
        problems.append(Diagnostic("project.no-tls", what, place_of(node, given[0]), hint=hint))
    if "key_file" in given and "cert_file" not in given:
        what, hint = "'key_file' needs 'cert_file'", "add the key's certificate"
        where = place_of(node, "key_file")
        problems.append(Diagnostic("project.missing-field", what, where, hint=hint))
    return [_file(node, field, folder, problems) for field in _FILES]


def _file(node: Map, field: str, folder: Path, problems: list[Diagnostic]) -> Path | None:
    value = node.get(field)
    text = _text(node, field, problems)
    if value is None or text is None:
        return None
    path = folder / text
    try:
        found = path.is_file()
    except (OSError, ValueError):
        found = False
    if not found:
        what, hint = f"{field!r} names no file", "paths are relative to connect.yaml"
        problems.append(Diagnostic("project.missing-file", what, value.where, hint=hint))
    return path if found else None


def _timeouts(node: Map, problems: list[Diagnostic]) -> tuple[float, float]:
    given = node.get("timeouts")
    fields = None if given is None else as_map(given, "timeouts", _CODE, problems)
    seconds = {"connect": 5.0, "answer": 100.0}
    if fields:
        check_fields(fields, seconds, _CODE, "timeouts", problems)
    for key, value in fields.entries if fields else ():
        if key.text not in seconds:
            continue
        text = value.text if isinstance(value, Scalar) else ""
        number = seconds_of(text) or 0.0
        if 0 < number <= SECONDS_MAX:
            seconds[key.text] = number
            continue
        what = f"{key.text!r} must be a duration above 0, at most {duration_text(SECONDS_MAX)}"
        hint = f"write {EXAMPLES}"
        problems.append(Diagnostic("project.bad-timeout", what, value.where, hint=hint))
    return seconds["connect"], seconds["answer"]


def _text(node: Map, field: str, problems: list[Diagnostic]) -> str | None:
    value = node.get(field)
    return None if value is None else as_text(value, field, _CODE, problems)
