"""`connect distributed`: a runtime from the file that Apache's own workers start from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.verbs.up import Master, Slots, check_one_master, with_master
from connect_specs.diagnostics import Invalid


def distributed(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A worker.properties file.")],
    slots: Slots = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Run the runtime from Apache's worker.properties, against the Kafka that the file names.

    Stays in the foreground until Ctrl-C. A key that has no effect here is a warning that names it.
    """
    from connect_reconciler.cli.running.extra import ensure_runtime_installed

    ensure_runtime_installed()
    from connect_reconciler.cli.running.foreground import run_until_told
    from connect_runtime.worker_config import from_properties

    check_one_master(slots, master)
    call = invocation(context)
    config, warnings = from_properties(
        _read(call.path(file)), data_folder=call.path(Path(".connect"))
    )
    config = with_master(config, slots, master)
    if config.rest.open_to_others:
        warnings.append(
            f"listeners: REST answers whoever reaches {config.listener.host}, and with it reads "
            "and writes the files of this process; rest.authentication=basic asks for a password"
        )
    run_until_told(config, warnings, lambda url: None, lambda name: (), as_json=as_json)


def _read(file: Path) -> Mapping[str, str]:
    from connect_specs.config_values import read_config
    from connect_specs.nodes import Map
    from connect_specs.properties_documents import parse_properties
    from connect_specs.text_files import read_text

    parsed = parse_properties(read_text(file, file.name, latin1_fallback=True), file.name)
    problems = list(parsed.problems)
    values: dict[str, str] = {}
    for document in parsed.documents:
        assert isinstance(document, Map), "a properties file is one map"
        values |= read_config(document, problems).values
    if problems:
        raise Invalid(*problems)
    return values
