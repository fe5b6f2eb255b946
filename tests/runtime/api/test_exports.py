"""The names that connector authors import are a promise: those that `__all__` lists."""

import subprocess
import sys
from types import ModuleType

from connect_runtime import api


def test_exported_names() -> None:
    exported = {name for name, value in vars(api).items() if not isinstance(value, ModuleType)}
    assert {name for name in exported if not name.startswith("_")} == {*api.__all__}


def test_needs_neither_kafka_nor_spark() -> None:
    code = (
        "import sys, connect_runtime.api;"
        "sys.exit(any(m in sys.modules for m in ('confluent_kafka', 'pyspark', 'orjson')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
