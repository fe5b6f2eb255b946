"""Reads key stores of Java's type JKS, which no maintained Python library does.

The format is that of `sun.security.provider.JavaKeyStore`: entries, then a SHA-1 of the password, a
phrase and the entries. A private key is hidden by a stream of SHA-1s that begins with a salt
(`KeyProtector`).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"\xfe\xed\xfe\xed"

_VERSIONS: Final = (1, 2)
_KEY, _CERTIFICATE = 1, 2
_PHRASE: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
# 1.3.6.1.4.1.42.2.17.1.1, Sun's protection of keys
_PROTECTION: Final = bytes.fromhex("060a2b060104012a02110101")
_SEQUENCE, _OCTETS = 0x30, 0x04


@dataclass(frozen=True, slots=True)
class JksEntry:
    """A private key, still protected, with its chain, its own certificate first; or without a key
    one trusted certificate. All are DER."""

    protected_key: bytes | None
    certificates: tuple[bytes, ...]


def read_jks(content: bytes, password: str | None) -> list[JksEntry]:
    """Returns the entries of a store. Without a password the store is not checked, as in Java.

    Raises ValueError, as `plain_key` does, for a store that is damaged, or another password. No
    message holds a part of the store.
    """
    entries = _Bytes(content)
    if entries.take(4) != MAGIC or entries.number() not in _VERSIONS:
        raise ValueError("this is no JKS store")
    versioned = content[7] == 2
    in_store = [_entry(entries, versioned) for _ in range(entries.number())]
    digest = hashlib.sha1(usedforsecurity=False)
    if password is not None:
        digest.update(password.encode("utf-16-be") + _PHRASE + content[: entries.position])
        if not hmac.compare_digest(digest.digest(), entries.take(_DIGEST_BYTES)):
            raise ValueError("the password is wrong, or the store is damaged")
    return in_store


def plain_key(protected: bytes, password: str) -> bytes:
    """Returns a key as PKCS #8, of an EncryptedPrivateKeyInfo."""
    info = _Bytes(_content(_Bytes(protected), _SEQUENCE))
    if not _content(info, _SEQUENCE).startswith(_PROTECTION):
        raise ValueError("a key is protected in another way than by JKS")
    octets = _content(info, _OCTETS)
    salt, hidden = octets[:_DIGEST_BYTES], octets[_DIGEST_BYTES:-_DIGEST_BYTES]
    secret = password.encode("utf-16-be")
    key = bytes(a ^ b for a, b in zip(hidden, _stream(secret, salt, len(hidden)), strict=True))
    checked = hashlib.sha1(secret + key, usedforsecurity=False).digest()
    if not hmac.compare_digest(checked, octets[-_DIGEST_BYTES:]):
        raise ValueError("the key's password is wrong")
    return key


class _Bytes:
    """The rest of a store: numbers are big-endian, and lengths stand before their content."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 0

    def take(self, count: int) -> bytes:
        content = self._content[self.position : self.position + count]
        if len(content) != count:
            raise ValueError("the store ends too early")
        self.position += count
        return content

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size))

    def sized(self, size: int = 4) -> bytes:
        return self.take(self.number(size))


def _entry(entries: _Bytes, versioned: bool) -> JksEntry:
    kind = entries.number()
    entries.sized(2)  # its alias
    entries.take(8)  # its time
    if kind not in (_KEY, _CERTIFICATE):
        raise ValueError("the store holds an entry of an unknown kind")
    protected = entries.sized() if kind == _KEY else None
    count = entries.number() if kind == _KEY else 1
    certificates = []
    for _ in range(count):
        if versioned:
            entries.sized(2)  # always X.509
        certificates.append(entries.sized())
    return JksEntry(protected, tuple(certificates))


def _stream(secret: bytes, salt: bytes, length: int) -> bytes:
    blocks, block = [], salt
    for _ in range(-(-length // _DIGEST_BYTES)):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        blocks.append(block)
    return b"".join(blocks)[:length]


def _content(der: _Bytes, tag: int) -> bytes:
    """Returns the content of the next element of DER."""
    if der.number(1) != tag:
        raise ValueError("a key is damaged")
    length = der.number(1)
    return der.take(der.number(length & 0x7F) if length & 0x80 else length)
