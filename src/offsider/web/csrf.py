"""CSRF protection: accept changes from our own pages and from programs only.

1. ``Sec-Fetch-Site``, if sent, must be ``same-origin``.
2. Otherwise (plain HTTP from another machine) ``Origin``, if sent, must match the requested host.
3. With neither header the client is no browser, and must send ``Authorization``: no foreign page can make a browser
   send it without ``Origin``.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from offsider.web.request import Request

_PORTS = {"http": 80, "https": 443}


def is_same_origin(request: Request) -> bool:
    """Whether the headers allow the request to change something."""
    site = request.header("sec-fetch-site")
    if site:
        return site.strip().lower() == "same-origin"
    origin = request.header("origin")
    if origin:
        return _names_host(origin, request.header("host"))
    return bool(request.header("authorization"))


def is_foreign(request: Request) -> bool:
    """Whether a browser reports that another site caused the request."""
    site, origin = request.header("sec-fetch-site").strip().lower(), request.header("origin")
    return site in {"same-site", "cross-site"} or bool(origin and not _names_host(origin, request.header("host")))


def _names_host(origin: str, host: str) -> bool:
    try:
        parts, asked = urlsplit(origin), urlsplit(f"//{host}")
        # A proxy may terminate TLS, so the origin's scheme is used for both.
        usual = _PORTS[parts.scheme]
        ports = (parts.port or usual, asked.port or usual)
    except (ValueError, KeyError):
        return False
    return bool(parts.hostname) and parts.hostname == asked.hostname and ports[0] == ports[1]
