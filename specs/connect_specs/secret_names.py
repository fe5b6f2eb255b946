"""Recognizes secrets by name: of config keys, and of values in values files."""

from __future__ import annotations

import re

_SECRET_NAME = re.compile(
    r"passw(or)?d|passphrase|passcode|pwd|(^|[._-])pass$|secret|token(?!iz|is)|credential"
    r"|(api|private|access|account|encryption|signing|master|shared)[._-]?key"
    r"|(sas|customer|decryption|subscription|function|storage|license|hmac|auth|app)[._-]?key$"
    r"|authorization$|(^|[._-])(cookie|license|psk|pat)$"
    r"|jaas\.config|ssl\.key$|ssl\.keystore\.(key|certificate\.chain)"
    r"|ssl\.truststore\.certificates|auth\.user\.?info|connection\.?string",
    re.IGNORECASE,
)
# Whoever knows a webhook's URL can use it
_WEBHOOK_NAME = re.compile(r"webhooks?([._-]?(url|uri|endpoint))?$", re.IGNORECASE)
# Names of facts *about* a secret: its location, type or lifetime
_ABOUT_A_SECRET = re.compile(
    r"[._-](class|provider|source|type|location|path|file|algorithm|mechanism|enabled?|ms|seconds"
    r"|url|uri|endpoint|topic|format)$",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether a key or value of this name is secret."""
    if _SECRET_NAME.search(name) and not _ABOUT_A_SECRET.search(name):
        return True
    return bool(_WEBHOOK_NAME.search(name))
