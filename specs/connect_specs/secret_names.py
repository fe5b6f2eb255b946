"""Whether a name is that of a secret: of a config key, or of a value in a values file; and texts
without the values of such keys."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(
    r"passw(or)?d|passphrase|passcode|secret|token(?!iz|is)|credential"
    r"|(api|private|access|account|encryption|signing|master|shared)[._-]?key"
    r"|jaas\.config|ssl\.key$|ssl\.keystore\.(key|certificate\.chain)"
    r"|ssl\.truststore\.certificates|auth\.user\.?info|connection\.?string",
    re.IGNORECASE,
)
# What a name says *about* a secret is none: where it lies, what kind it is, how long it lasts
_ABOUT_A_SECRET = re.compile(
    r"[._-](class|provider|source|type|location|path|file|algorithm|mechanism|enabled?|ms|seconds"
    r"|url|uri|endpoint|topic|format)$",
    re.IGNORECASE,
)
_SHORTEST = 4


def is_secret_name(name: str) -> bool:
    """Whether what has this name is a secret."""
    return bool(_SECRET_NAME.search(name)) and not _ABOUT_A_SECRET.search(name)


def hide_secrets(text: str, config: Mapping[str, str | None], mask: str) -> str:
    """The text, with a mask for each value of the config whose key is a secret's name. Values of
    less than four characters are too short to tell."""
    secrets = {value for key, value in config.items() if value and is_secret_name(key)}
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, mask)
    return text
