"""Host names that the web UI accepts, as protection against DNS rebinding.

A web site may point its own name at 127.0.0.1; the browser then treats our pages as part of that site. So without
authentication the ``Host`` header must name an allowed host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from offsider.web.request import Request


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
