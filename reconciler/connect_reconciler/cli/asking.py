"""A look at a runtime's REST API without an HTTP library's weight: is it healthy, what waits?"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

_PATIENCE_S = 2.0
# A proxy that the environment names has no business between the processes of one cluster.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url: str) -> Mapping[str, Any] | None:
    """The JSON object that a GET is answered with; None for any other answer, or none."""
    try:
        with _OPENER.open(url, timeout=_PATIENCE_S) as answer:
            found = json.load(answer)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
