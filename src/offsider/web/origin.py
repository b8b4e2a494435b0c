"""Whether a request that changes something comes from our own pages.

1. A browser that says ``Sec-Fetch-Site`` has to say ``same-origin``.
2. One that does not, over plain HTTP from another machine, sends an ``Origin``, which has to be the host it asks.
3. With neither it is no browser: then it has to bring an ``Authorization`` header, which no page of somebody else's
   can make a browser send without an ``Origin``.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from offsider.web.request import Request

_PORTS = {"http": 80, "https": 443}


def is_same_origin(request: Request) -> bool:
    """Whether it may change something, as far as its origin says."""
    site = request.header("sec-fetch-site")
    if site:
        return site.strip().lower() == "same-origin"
    origin = request.header("origin")
    if origin:
        return _names_host(origin, request.header("host"))
    return bool(request.header("authorization"))


def _names_host(origin: str, host: str) -> bool:
    try:
        parts, asked = urlsplit(origin), urlsplit(f"//{host}")
        # A proxy may have taken the TLS off, so the scheme is the origin's own for both.
        usual = _PORTS[parts.scheme]
        ports = (parts.port or usual, asked.port or usual)
    except (ValueError, KeyError):
        return False
    return bool(parts.hostname) and parts.hostname == asked.hostname and ports[0] == ports[1]
