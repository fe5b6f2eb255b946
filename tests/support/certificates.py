"""Certificates of a test's own, made by openssl: an authority, a server's and a client's."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates for this machine."""

    folder: Path
    own: Certificate

    @classmethod
    def make(cls, folder: Path, name: str = "authority") -> "Authority":
        """Skips the test where there is no openssl."""
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        own = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-days", "2", "-subj", f"/CN={name}"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            *("-keyout", str(own.key), "-out", str(own.certificate)),
        )
        return cls(folder, own)

    def sign(self, name: str) -> Certificate:
        """A certificate for 127.0.0.1, by which a server or a client says who it is."""
        names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
        return self._signed(name, "basicConstraints=critical,CA:FALSE", names)

    def delegate(self, name: str) -> "Authority":
        """An authority whose certificate this one signed."""
        made = self._signed(name, "basicConstraints=critical,CA:TRUE", "keyUsage=keyCertSign")
        return Authority(self.folder, made)

    def _signed(self, name: str, *extensions: str) -> Certificate:
        made = Certificate(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-days", "2", "-subj", f"/CN={name}"),
            *(word for each in extensions for word in ("-addext", each)),
            *("-CA", str(self.own.certificate), "-CAkey", str(self.own.key)),
            *("-keyout", str(made.key), "-out", str(made.certificate)),
        )
        return made


def _openssl(*words: str) -> None:
    done = subprocess.run(
        ["openssl", *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
