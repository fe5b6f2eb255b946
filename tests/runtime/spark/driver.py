"""A driver of its own process, for tests that kill it: `driver.py FOLDER`, until it is killed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from connect_runtime.spark.launcher import SparkLauncher
from runtime.spark.bodies import body_in, launch


def main(folder: Path) -> None:
    launcher = SparkLauncher("local[4]", folder / "data", body=body_in(folder))
    launcher.start()
    for connector in ("wait", "deaf"):
        launcher.launch(launch(connector), lambda outcome: None)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
