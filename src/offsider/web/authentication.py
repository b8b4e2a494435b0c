"""Basic authentication with one user and password."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable

from offsider.web.request import Request

CHALLENGE = 'Basic realm="offsider", charset="UTF-8"'


def basic(user: str, password: str) -> Callable[[Request], str | None]:
    """Return a hook for one user and password. Its duration does not depend on the credentials."""
    known = _digest(user), _digest(password)

    def authenticate(request: Request) -> str | None:
        given = _credentials(request.header("authorization"))
        fits = hmac.compare_digest(_digest(given[0]), known[0])
        # Always compare both.
        fits &= hmac.compare_digest(_digest(given[1]), known[1])
        return user if fits else None

    return authenticate


def _credentials(header: str) -> tuple[str, str]:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return "", ""
    user, _, password = text.partition(":")
    return user, password


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()
