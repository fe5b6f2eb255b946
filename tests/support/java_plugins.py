"""Compiles plugins of the tests for an Apache worker."""

import os
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from connect_runtime.kafka.jars import classpath
from connect_runtime.kafka.local_processes import find_java


def make_jar(source: Path, services: Mapping[str, str], jar: Path) -> None:
    """Writes a jar of a Java file's classes. `services` are the classes that it offers, by their
    interface."""
    java = find_java()
    assert java is not None, "Java not found"
    classes = jar.with_suffix(".classes")
    folders = [Path(each).parent for each in classpath("connect").split(os.pathsep)]
    # the compiler does not expand `*`
    jars = os.pathsep.join(str(jar) for folder in folders for jar in folder.glob("*.jar"))
    compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", jars]
    subprocess.run([str(java), *compiler, "-d", str(classes), str(source)], check=True)
    with zipfile.ZipFile(jar, "w") as archive:
        for file in classes.rglob("*.class"):
            archive.write(file, file.relative_to(classes))
        for interface, name in services.items():
            archive.writestr(f"META-INF/services/{interface}", f"{name}\n")
