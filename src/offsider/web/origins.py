"""Hosts and origins of requests, as protection against pages of other sites.

DNS rebinding: a web site may point its own name at 127.0.0.1; the browser then treats our pages as part of that site.
So without authentication the ``Host`` header must name an allowed host.

CSRF: changes are accepted from our own pages and from programs only.

1. ``Sec-Fetch-Site``, if sent, must be ``same-origin``.
2. Otherwise (plain HTTP from another machine) ``Origin``, if sent, must match the requested host.
3. With neither header the client is no browser, and must send ``Authorization``: no foreign page can make a browser
   send it without ``Origin``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from offsider.web.request import Request

_PORTS = {"http": 80, "https": 443}


def host_of(header: str) -> str:
    """Return the host name of a ``Host`` header, without port, in lowercase."""
    text = header.strip().lower()
    if text.startswith("["):
        address, _, rest = text[1:].partition("]")
        # Anything but a port after the bracket makes it another name.
        return address if not rest or (rest[0] == ":" and rest[1:].isdecimal()) else text
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def is_loopback(name: str) -> bool:
    """Whether a host name or address always means this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_direct_and_local(request: Request) -> bool:
    """Whether the client is a program on this machine, not a local proxy for a remote client."""
    forwarded = request.header("x-forwarded-for") or request.header("forwarded")
    return not forwarded and (not request.client or is_loopback(request.client))


def is_known(header: str, allowed: Collection[str]) -> bool:
    """Whether a ``Host`` header names loopback or an allowed host, with or without its port."""
    text = header.strip().lower()
    known = {name.lower() for name in allowed}
    return "*" in known or text in known or host_of(text) in known or is_loopback(host_of(text))


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
