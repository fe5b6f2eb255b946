"""How a runtime of ours is asked: at its URL, with the password of this project's data folder."""

from __future__ import annotations

from connect_runtime.rest.password import USER, password_file, read_password
from connect_specs.desired import Project, RestTarget


def runtime_target(project: Project, url: str) -> RestTarget:
    """Without a login where this folder has no password."""
    password = read_password(project.data)
    return RestTarget(url) if password is None else RestTarget(url, USER, password)


def login_hint(project: Project) -> str:
    """What to do where the runtime refuses the login."""
    return (
        f"copy the runtime's password file to {password_file(project.data)}; on the runtime's "
        "machine, `connect password` says where it is"
    )
