"""`connect version`: which version this is."""

from __future__ import annotations

from connect_reconciler.cli.invocation import AsJson
from connect_reconciler.cli.output import result, result_json


def version(as_json: AsJson = False) -> None:
    """Show the version of connect and of the Python that runs it."""
    import platform
    from importlib.metadata import version as version_of

    found = version_of("connect-reconciler")
    if as_json:
        result_json({"connect": found, "python": platform.python_version()})
    else:
        result(f"connect {found} (Python {platform.python_version()})")
