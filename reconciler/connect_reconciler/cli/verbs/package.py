"""`connect package`: this Python environment as one archive for the nodes of a Spark cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import progress, result, result_json
from connect_reconciler.cli.session import invocation

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...",
        help="Further packages or modules to include. Packages that register plugins are included "
        "anyway.",
    ),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The archive to write.")
]
Python = Annotated[
    str | None,
    typer.Option(
        metavar="PATH", help="Where Python is on the nodes; by default, where it is here."
    ),
]


def package(
    context: typer.Context,
    names: Names = None,
    output: Output = Path("environment.tar.gz"),
    python: Python = None,
    as_json: AsJson = False,
) -> None:
    """Pack connect, its plugins and what they require for the nodes of a Spark cluster.

    Prints what each node must have, and the worker properties with which Spark sends the archive to
    its executors.
    """
    from connect_reconciler.cli.project_files import not_written
    from connect_runtime.spark.environment_archive import pack

    file = invocation(context).path(output).resolve()
    # not the one of a virtual environment, which nodes do not have
    here: str = getattr(sys, "_base_executable", sys.executable)
    try:
        packed = pack(file, python or here, names or ())
    except OSError as error:
        raise not_written("the archive cannot be written", file, error) from error
    if as_json:
        result_json(
            {
                "file": str(packed.file),
                "packages": list(packed.packages),
                "needs": list(packed.needs),
                "properties": dict(packed.properties),
            }
        )
        return
    size = packed.file.stat().st_size / 1_000_000
    progress(f"{packed.file}: {size:.0f} MB, {len(packed.packages)} packages")
    progress("Each node needs:")
    for each in packed.needs:
        progress(f"  {each}")
    progress("Worker properties that use it (in connect.yaml under cluster.worker):")
    result("\n".join(f"{key}: {value}" for key, value in packed.properties.items()))
