"""Finds the Java that runs Kafka: JAVA_HOME's, else the one on PATH.

Does not check its version: a process that cannot run on it says so in its log, which the error
shows. The Makefile checks the version before.
"""

import os
import shutil
from pathlib import Path

NO_JAVA_HINT = "Install Java, or correct JAVA_HOME; without it, java is looked for on PATH."


def find_java() -> Path | None:
    """Returns the `java` command of JAVA_HOME or PATH, or None."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    return Path(found) if found else None
