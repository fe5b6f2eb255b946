"""Finds the engine: the program of the JVMs that run Java plugins, and its class path.

Wheels hold it compiled. In a source checkout it is compiled at its first use, by the compiler among
Kafka's jars, so a JRE is enough: one jar for each state of the sources and each version of Kafka.

`python -m connect_runtime.engine.engine_jar package` compiles it for a wheel, and `check` checks
the sources, warnings included.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from connect_runtime import KAFKA_VERSION
from connect_runtime.class_archives import ClassArchive
from connect_runtime.engine.sent_files import sent_jars
from connect_runtime.kafka.jars import cache_folder, jars_folder
from connect_runtime.kafka.local_processes import NO_JAVA_HINT, find_java
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed
from connect_specs.plain_text import render_diagnostics

MAIN_CLASS: Final = "connect.engine.Engine"

_SOURCES: Final = Path(__file__).with_name("source")
_COMPILE_S: Final = 120.0
_TO_JAVA_17: Final = ("-source", "17", "-target", "17", "-proc:none")
# More than the compiler's defaults; without leaks, which it sees in each object that is handed on
_STRICT: Final = (
    "-warn:+unused,unusedArgument,unusedParam,unusedTypeParameter,raw,unchecked,fallthrough,null,"
    "nullDereference,over-ann,dep-ann,semicolon,hashCode,uselessTypeCheck,unnecessaryElse,"
    "redundantSuperinterface,invalidJavadoc,noEffectAssign,compareIdentical,maskedCatchBlock,"
    "paramAssign,syncOverride,removal",
    "-warn:-unusedExceptionParam,resource",
    "-failOnWarning",
)
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
    """Returns the jars of an engine, its own first: on a node those that were sent there. Raises
    ArtifactsError if Connect's are missing, Failed if the engine cannot be compiled."""
    sent = sent_jars()
    if sent:
        return sent
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
    packaged = Path(__file__).with_name(_jar_name())
    if packaged.is_file():
        return packaged
    jar = cache_folder() / "engine" / packaged.name
    if not jar.is_file():
        jar.parent.mkdir(parents=True, exist_ok=True)
        _compile(jar, libraries)
    return jar


def _jar_name() -> str:
    """Returns the name of the jar of these sources."""
    content = b"".join(source.read_bytes() for source in sorted(_SOURCES.rglob("*.java")))
    key = hashlib.sha256(KAFKA_VERSION.encode() + content).hexdigest()[:16]
    return f"engine-{key}.jar"


def _compile(jar: Path, libraries: tuple[Path, ...]) -> None:
    """Compiles the sources into `jar`. Safe for concurrent processes: each writes
    a file of its own. Raises Failed."""
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        classes, built = Path(folder, "classes"), Path(folder, "engine.jar")
        _run_compiler(libraries, "-nowarn", "-d", str(classes))
        with zipfile.ZipFile(built, "w") as archive:
            for file in sorted(classes.rglob("*.class")):
                archive.write(file, file.relative_to(classes))
        built.replace(jar)


def _run_compiler(libraries: tuple[Path, ...], *options: str) -> None:
    java = find_java()
    if java is None:
        raise _failure("the engine for Java plugins needs Java 17 or newer", NO_JAVA_HINT)
    (compiler,) = jars_folder("compiler").glob("ecj-*.jar")
    command = [str(java), "-jar", str(compiler), *_TO_JAVA_17, *options]
    command += ["-cp", os.pathsep.join(map(str, libraries)), str(_SOURCES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMPILE_S)
    if done.returncode:
        raise _failure("the engine for Java plugins cannot be compiled", done.stderr.strip())


def _failure(what: str, hint: str) -> Failed:
    return Failed(Diagnostic("engine.jar", what, hint=hint))


def main(arguments: Sequence[str]) -> int:
    """Compiles the engine into this package, or only checks it; returns the exit code."""
    try:
        match arguments:
            case ["package"]:
                jar = Path(__file__).with_name(_jar_name())
                for earlier in jar.parent.glob("engine-*.jar"):
                    earlier.unlink()
                _compile(jar, _libraries())
                sys.stdout.write(f"{jar}\n")
            case ["check"]:
                _run_compiler(_libraries(), *_STRICT, "-d", "none")
            case _:
                sys.stderr.write(
                    "usage: python -m connect_runtime.engine.engine_jar check|package\n"
                )
                return 2
    except ConnectError as error:
        sys.stderr.write(render_diagnostics(error.diagnostics))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
