"""Finds the engine: the program of the JVMs that run Java plugins, and its class path.

It is compiled at its first use, by the compiler among Kafka's jars, so a JRE is enough: one jar for
each state of the sources and each version of Kafka.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

from connect_runtime import KAFKA_VERSION
from connect_runtime.class_archives import ClassArchive
from connect_runtime.kafka.jars import cache_folder, jars_folder
from connect_runtime.kafka.local_processes import NO_JAVA_HINT, find_java
from connect_specs.diagnostics import Diagnostic, Failed

MAIN_CLASS: Final = "connect.engine.Engine"

_SOURCES: Final = Path(__file__).with_name("source")
_COMPILE_S: Final = 120.0
# Of the broker's jars those that Connect needs as well
_OF_BROKER: Final = (
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "jackson-dataformat-yaml",
    "jackson-datatype-jdk8",
    "jose4j",
    "kafka-clients",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j-impl",
    "lz4-java",
    "slf4j-api",
    "snakeyaml",
    "snappy-java",
    "zstd-jni",
)


@cache
def class_path() -> tuple[Path, ...]:
    """Returns the jars of an engine, its own first. Raises ArtifactsError if Connect's are missing,
    Failed if the engine cannot be compiled."""
    libraries = _libraries()
    return (_compiled(libraries), *libraries)


def class_archive() -> ClassArchive:
    """Returns the archive of an engine's classes, made or not. Raises ArtifactsError, Failed."""
    return ClassArchive("engine", class_path())


def _libraries() -> tuple[Path, ...]:
    """Returns Connect's jars without those of the broker alone: they would hide a plugin's own."""
    broker = jars_folder("broker")
    shared = (next(broker.glob(f"{module}-[0-9]*.jar")) for module in _OF_BROKER)
    return (*sorted(jars_folder("connect").glob("*.jar")), *shared)


def _compiled(libraries: tuple[Path, ...]) -> Path:
    sources = sorted(_SOURCES.rglob("*.java"))
    content = b"".join(source.read_bytes() for source in sources)
    key = hashlib.sha256(KAFKA_VERSION.encode() + content).hexdigest()[:16]
    jar = cache_folder() / "engine" / f"engine-{key}.jar"
    if not jar.is_file():
        jar.parent.mkdir(parents=True, exist_ok=True)
        _compile(jar, libraries)
    return jar


def _compile(jar: Path, libraries: tuple[Path, ...]) -> None:
    """Compiles the sources into `jar`. Safe for concurrent processes: each writes
    a file of its own. Raises Failed."""
    java = find_java()
    if java is None:
        raise _failure("the engine for Java plugins needs Java 17 or newer", NO_JAVA_HINT)
    (compiler,) = jars_folder("compiler").glob("ecj-*.jar")
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        classes, built = Path(folder, "classes"), Path(folder, "engine.jar")
        command = [str(java), "-jar", str(compiler), "-source", "17", "-target", "17", "-proc:none"]
        command += ["-nowarn", "-cp", os.pathsep.join(map(str, libraries))]
        command += ["-d", str(classes), str(_SOURCES)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_COMPILE_S
        )
        if done.returncode:
            raise _failure("the engine for Java plugins cannot be compiled", done.stderr.strip())
        with zipfile.ZipFile(built, "w") as archive:
            for file in sorted(classes.rglob("*.class")):
                archive.write(file, file.relative_to(classes))
        built.replace(jar)


def _failure(what: str, hint: str) -> Failed:
    return Failed(Diagnostic("engine.jar", what, hint=hint))
