"""Compiles plugins of the tests for an Apache worker, and has ours find them in this process."""

import os
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from connect_runtime.engine.catalog import JavaCatalog, use_catalog
from connect_runtime.engine.engine_jar import MAIN_CLASS
from connect_runtime.kafka.jars import classpath
from connect_runtime.kafka.local_processes import find_java, start_time
from connect_runtime.plugins import registry

SOURCE = "org.apache.kafka.connect.source.SourceConnector"
SINK = "org.apache.kafka.connect.sink.SinkConnector"
TRANSFORMATION = "org.apache.kafka.connect.transforms.Transformation"
# One that is left out has all classes of the plugin looked at, by each JVM
COUNTING = {
    SOURCE: "tests.Counting",
    SINK: "tests.Counting$Lines",
    TRANSFORMATION: "tests.Counting$Same",
}
SOURCES = Path(__file__).parents[1] / "runtime" / "engine" / "plugins"


def make_jar(
    source: Path, services: Mapping[str, str], jar: Path, more: Sequence[Path] = ()
) -> None:
    """Writes a jar of a Java file's classes. `services` are the classes that it offers, by their
    interface; it is compiled against Connect and the jars `more`."""
    java = find_java()
    assert java is not None, "Java not found"
    classes = jar.with_suffix(".classes")
    folders = [Path(each).parent for each in classpath("connect").split(os.pathsep)]
    # the compiler does not expand `*`
    of_connect = [jar for folder in folders for jar in folder.glob("*.jar")]
    jars = os.pathsep.join(map(str, [*of_connect, *more]))
    compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", jars]
    subprocess.run([str(java), *compiler, "-d", str(classes), str(source)], check=True)
    with zipfile.ZipFile(jar, "w") as archive:
        for file in classes.rglob("*.class"):
            archive.write(file, file.relative_to(classes))
        for interface, name in services.items():
            archive.writestr(f"META-INF/services/{interface}", f"{name}\n")


def add_compiled(name: str, services: Mapping[str, str], plugin_path: Path) -> None:
    """Puts a plugin into a folder of plugin.path: the one of this name among the tests' sources."""
    folder = plugin_path / name.lower()
    folder.mkdir(parents=True)
    jar = plugin_path.with_name(f"{name}.jar")
    make_jar(SOURCES / f"{name}.java", services, jar)
    jar.rename(folder / jar.name)


@contextmanager
def java_catalog(worker: Mapping[str, str]) -> Iterator[JavaCatalog]:
    """This process's catalog of Java plugins. What was looked up before it, and with it, is
    forgotten."""
    catalog = JavaCatalog(worker, "ours:8083")
    use_catalog(catalog)
    try:
        assert catalog.scan()
        registry.connector.cache_clear()
        yield catalog
    finally:
        use_catalog(None)
        registry.connector.cache_clear()
        catalog.close()


def engine_jvms() -> set[int]:
    """The engines that this process has started."""
    pids = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            command = (stat.parent / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if parent == os.getpid() and MAIN_CLASS.encode() in command:
            pids.add(int(stat.parent.name))
    return pids


def newest_engine_jvm() -> int:
    """The engine that was started last: right after a connector's creation, that of its task."""
    return max(engine_jvms(), key=lambda pid: start_time(pid) or 0.0)
