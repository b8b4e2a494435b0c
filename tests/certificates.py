"""A certificate authority and one certificate for localhost, created for each test session."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Certificates:
    """Files for both sides of a TLS connection, and the URL of the server that uses them."""

    ca_file: Path
    cert_file: Path
    key_file: Path
    url: str = ""

    def at(self, url: str) -> Self:
        return replace(self, url=url)


def make_certificates(folder: Path) -> Certificates:
    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    fresh = ("-newkey", "rsa:2048", "-nodes", "-days", "2")
    # Python >= 3.13 requires the key usage and the authority's key id.
    authority = ("-subj", "/CN=offsider test authority", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl("req", "-x509", *fresh, *authority, "-keyout", "ca.key", "-out", "ca.crt")
    openssl("req", *fresh[:3], "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "server.csr", "-out", "server.crt", *signed)
    return Certificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")
