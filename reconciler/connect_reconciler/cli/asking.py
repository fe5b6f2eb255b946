"""A look at a runtime's REST API without an HTTP library's weight: is it healthy, what waits?"""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Mapping
from typing import Any

_PATIENCE_S = 2.0
# A proxy that the environment names has no business between the processes of one cluster.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url: str, login: str | None = None) -> Mapping[str, Any] | None:
    """The JSON object that a GET is answered with; None for any other answer, or none.

    `login` is user and password, with a colon between them.
    """
    asked = urllib.request.Request(url)
    if login is not None:
        encoded = base64.b64encode(login.encode()).decode()
        asked.add_unredirected_header("Authorization", f"Basic {encoded}")
    try:
        with _OPENER.open(asked, timeout=_PATIENCE_S) as answer:
            found = json.load(answer)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
