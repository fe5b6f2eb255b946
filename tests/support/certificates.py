"""Certificates of a test's own, made by openssl: an authority, a server's and a client's."""

import shutil
import subprocess
from collections.abc import Sequence
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


def java_store(
    path: Path,
    kind: str,
    *,
    trusted: Sequence[Path] = (),
    own: Certificate | None = None,
    password: str,
    key_password: str = "",
) -> Path:
    """A store of Java's with these certificates, and with a key if there is one. Skips the test
    where there is no keytool."""
    if shutil.which("keytool") is None:
        pytest.skip("keytool is not installed")
    path.unlink(missing_ok=True)
    of_store = ("-noprompt", "-storetype", kind, "-storepass", password, "-keystore", str(path))
    for number, certificate in enumerate(trusted):
        _run("keytool", "-importcert", "-alias", f"a{number}", *of_store, "-file", str(certificate))
    if own is not None:
        p12 = path.with_name(f"{path.name}.openssl")
        _openssl(
            *("pkcs12", "-export", "-passout", f"pass:{password}", "-out", str(p12)),
            *("-in", str(own.certificate), "-inkey", str(own.key), "-name", "own"),
        )
        _run(
            *("keytool", "-importkeystore", "-noprompt", "-srcstoretype", "PKCS12"),
            *("-srckeystore", str(p12), "-srcstorepass", password, "-srcalias", "own"),
            *("-destkeystore", str(path), "-deststoretype", kind, "-deststorepass", password),
            *("-destkeypass", key_password or password),
        )
    return path


def _openssl(*words: str) -> None:
    _run("openssl", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
