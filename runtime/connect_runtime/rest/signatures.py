"""Refuses the requests that Apache's workers sign and send each other; ours use topics.

There is no session key here, so no signature is valid. What is refused with which text follows
Apache's `InternalRequestSignature` (connect-facts 4.5).
"""

from __future__ import annotations

import base64
import binascii
import string
from collections.abc import Mapping
from typing import Final

from connect_runtime.herder.verbs import RequestError

_SIGNATURE: Final = "x-connect-authorization"
_ALGORITHM: Final = "x-connect-request-signature-algorithm"
_SUPPORTED: Final = "HmacSHA256"
# Further ones that a Java VM knows
_KNOWN: Final = ("HmacMD5", "HmacSHA1", "HmacSHA224", "HmacSHA384", "HmacSHA512")
_BASE64: Final = string.ascii_letters + string.digits + "+/="


def refusal(headers: Mapping[str, str]) -> RequestError:
    """Returns why a request with these headers (names in lower case) is refused."""
    signature, algorithm = headers.get(_SIGNATURE), headers.get(_ALGORITHM)
    if signature is None or algorithm is None:
        return RequestError(400, "Internal request missing required signature")
    if algorithm not in (_SUPPORTED, *_KNOWN):
        return RequestError(400, f"Algorithm {algorithm} not available")
    if len(signature) == 1:
        text = "Input byte[] should at least have 2 bytes for base64 bytes"
        return RequestError(400, text)
    illegal = next((each for each in signature if each not in _BASE64), None)
    if illegal is not None:
        return RequestError(400, f"Illegal base64 character {ord(illegal):x}")
    try:
        # Java needs no padding
        base64.b64decode(signature + "==" if "=" not in signature else signature)
    except binascii.Error:
        return RequestError(400, "Input byte array has wrong 4-byte ending unit")
    if algorithm != _SUPPORTED:
        return RequestError(
            400,
            f"This worker does not support the '{algorithm}' key signing algorithm used by other "
            f"workers. This worker is currently configured to use: [{_SUPPORTED}]. Check that all "
            "workers' configuration files permit the same set of signature algorithms, and correct "
            "any misconfigured worker and restart it.",
        )
    return RequestError(403, "Internal request contained invalid signature.")
