"""`connect password`: where the REST API's password is kept, and another one."""

from __future__ import annotations

from typing import Annotated

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import result, result_json
from connect_reconciler.cli.session import invocation

Rotate = Annotated[
    bool, typer.Option("--rotate", help="Replace the password; a running runtime uses it at once.")
]


def password(context: typer.Context, rotate: Rotate = False, as_json: AsJson = False) -> None:
    """Show where the password of the runtime's REST API is kept, never the password itself.

    Required with rest.authentication: basic; the verbs of this project use it automatically.
    """
    from connect_reconciler.cli.project_files import make_data_folder
    from connect_runtime.rest.password import (
        USER,
        password_file,
        read_password,
        replace_password,
    )

    project = invocation(context).project()
    if rotate:
        make_data_folder(project)
        replace_password(project.data)
    file = password_file(project.data)
    there = read_password(project.data) is not None
    if as_json:
        result_json({"user": USER, "file": str(file), "exists": there, "rotated": rotate})
    elif rotate:
        result(f"the password of user {USER} in {file} was replaced")
    elif there:
        result(f"the password of user {USER} is in {file}")
    else:
        result(
            f"there is no password yet: `connect up` with rest.authentication: basic creates {file}"
        )
