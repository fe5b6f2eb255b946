"""Is the part of the installation there that runs connectors?"""

from __future__ import annotations

from importlib.util import find_spec

from connect_specs.diagnostics import Diagnostic, Invalid

# What the extra `runtime` of this package installs
_PACKAGES = ("pyspark", "cryptography")


def ensure_runtime_installed() -> None:
    """Raises Invalid where the packages of the extra `runtime` are missing."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        what = f"connectors cannot be run here: {' and '.join(missing)} not installed"
        why = "planning and applying do without, so they are an extra of this package"
        hint = "pip install 'connect-reconciler[runtime]'"
        raise Invalid(Diagnostic("runtime.not-installed", what, why=why, hint=hint))
