"""Which Java runs Kafka: JAVA_HOME's, else the one on PATH.

Only finds it. Whether it is new enough is said by the process that starts, in the log that its
error shows; the Makefile checks the version before.
"""

import os
import shutil
from pathlib import Path


def find_java() -> Path | None:
    """The `java` command that JAVA_HOME or PATH names, or None."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    return Path(found) if found else None
