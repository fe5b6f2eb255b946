"""A catalog of Iceberg that is served over its REST protocol: Iceberg's own, with which it tests
its clients. Its tables are listed in a database of a test's Postgres."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from connect_runtime.kafka.jars import jars_folder
from connect_runtime.kafka.local_processes import LOOPBACK, find_java, free_port
from support import http
from support.connect_jars import optional_files
from support.java_plugins import make_jar
from support.postgres import PASSWORD, USER, Postgres
from support.wait import wait_until

_SOURCE = Path(__file__).with_name("RestCatalog.java")
_START_S = 120


@contextmanager
def rest_catalog(server: Postgres, database: str, driver: Path, folder: Path) -> Iterator[str]:
    """Yields the address. `driver` is a jar; files of tables are written to `folder`."""
    java, port = find_java(), free_port()
    assert java is not None, "Java not found"
    own = [*optional_files("iceberg-rest"), *optional_files("iceberg-tests")]
    libraries = [f for f in optional_files("iceberg") if not f.name.startswith("iceberg-")]
    jar = folder / "rest-catalog.jar"
    make_jar(_SOURCE, {}, jar, [*own, *libraries])
    jetty = [f"{jars_folder(name)}{os.sep}*" for name in ("connect", "broker")]
    options = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": server.url(database),
        "jdbc.user": USER,
        "jdbc.password": PASSWORD,
        "warehouse": f"file://{folder}/lake",
    }
    class_path = os.pathsep.join([*map(str, [jar, *own, *libraries, driver]), *jetty])
    command = [str(java), "-Xmx256m", "-XX:+UseSerialGC", "-cp", class_path, "tests.RestCatalog"]
    command += [str(port), *(f"{key}={value}" for key, value in options.items())]
    url = f"http://{LOOPBACK}:{port}"
    log = folder / "rest-catalog.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            return http.get(f"{url}/v1/config", timeout=10).is_success
        except httpx.TransportError:
            return False

    try:
        wait_until(answers, what="the catalog", timeout_s=_START_S)
        yield url
    finally:
        process.kill()
        process.wait(30)
