"""A real HTTP server with files in the layout of a Maven repository, and faults of such servers."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from connect_runtime.kafka.local_processes import LOOPBACK
from connect_runtime.maven import Coordinate, parse_coordinate

# An answer that never ends is given up by the server then
_STUCK_S = 60.0


class MavenRepository(ThreadingHTTPServer):
    """`files` are by their paths. `faults` are by the end of a path: a status, `cut` or `slow`.
    `login` (`user:password`) is asked for if it is set. `requests` are the paths asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, int | str] = {}
        self.login = ""
        self.requests: list[str] = []
        self.over = threading.Event()

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def add(self, text: str, content: bytes, pom: str | None = "") -> None:
        """Adds an artifact with its checksum, and unless it is None a POM with these elements."""
        coordinate = parse_coordinate(text)
        assert coordinate is not None, text
        self._put(coordinate, coordinate.file_name, content)
        if pom is not None:
            group, artifact, version = coordinate.group, coordinate.artifact, coordinate.version
            self._put(
                coordinate,
                f"{artifact}-{version}.pom",
                (
                    f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId>"
                    f"<artifactId>{artifact}</artifactId><version>{version}</version>{pom}</project>"
                ).encode(),
            )

    def _put(self, coordinate: Coordinate, name: str, content: bytes) -> None:
        folder = coordinate.group.replace(".", "/")
        path = f"/{folder}/{coordinate.artifact}/{coordinate.version}/{name}"
        self.files[path] = content
        self.files[f"{path}.sha1"] = hashlib.sha1(content).hexdigest().encode()

    def settings(self, file: Path, *, user: str = "", password: str = "") -> Path:
        """Writes Ivy settings that name this repository as the only one."""
        login = (
            f'<credentials host="{LOOPBACK}" realm="test" username="{user}" passwd="{password}"/>'
        )
        file.write_text(
            '<ivysettings><properties environment="env"/>'
            f'<settings defaultResolver="mirror"/>{login if user else ""}'
            '<timeout-constraints><timeout-constraint name="short" connectionTimeout="2000"'
            ' readTimeout="1000"/></timeout-constraints><resolvers><ibiblio name="mirror"'
            f' m2compatible="true" root="{self.url}/" timeoutConstraint="short"/></resolvers>'
            "</ivysettings>"
        )
        return file


@contextmanager
def maven_repository() -> Iterator[MavenRepository]:
    server = MavenRepository()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    server: MavenRepository

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        server, path = self.server, self.path.partition("?")[0]
        server.requests.append(self.path)
        fault = next((f for end, f in server.faults.items() if path.endswith(end)), None)
        expected = base64.b64encode(server.login.encode()).decode()
        if server.login and self.headers.get("Authorization") != f"Basic {expected}":
            self._send(401, {"WWW-Authenticate": 'Basic realm="test"'})
        elif path.startswith("/redirected/"):
            self._send(302, {"Location": path.removeprefix("/redirected")})
        elif path.startswith("/leaving/"):
            self._send(302, {"Location": "http://plain.invalid/x.zip"})
        elif isinstance(fault, int):
            self._send(fault, {})
        elif path not in server.files:
            self._send(404, {})
        else:
            self._send(200, {}, server.files[path], fault, body=body)

    def _send(
        self,
        status: int,
        headers: Mapping[str, str],
        content: bytes = b"",
        fault: int | str | None = None,
        *,
        body: bool = True,
    ) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if not body:
            return
        if fault is None:
            self.wfile.write(content)
            return
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        if fault == "slow":
            self.server.over.wait(_STUCK_S)
        self.close_connection = True


def jar(**files: str) -> bytes:
    """The bytes of a jar with these files; the same files give the same bytes."""
    return zipped({f"{name}.class": text.encode() for name, text in files.items()})


def zipped(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def tarred(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0)
