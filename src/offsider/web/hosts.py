"""Under which names the pages answer.

A page on the internet may give its own name the address 127.0.0.1 (DNS rebinding): the browser then takes our pages for
its own. So where nobody is asked for a password, a request has to name a host that is known.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from offsider.web.request import Request


def host_of(header: str) -> str:
    """The name in a ``Host`` header, without its port, in small letters."""
    text = header.strip().lower()
    if text.startswith("["):
        address, _, rest = text[1:].partition("]")
        # Whatever stands behind the bracket but a port makes it another name.
        return address if not rest or (rest[0] == ":" and rest[1:].isdecimal()) else text
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def is_loopback(name: str) -> bool:
    """Whether a host's name or address means this machine, and can mean no other."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_direct_and_local(request: Request) -> bool:
    """Whether a program on this machine asks, and not a proxy on it for somebody else."""
    handed_on = request.header("x-forwarded-for") or request.header("forwarded")
    return not handed_on and (not request.client or is_loopback(request.client))


def is_known(header: str, allowed: Collection[str]) -> bool:
    """Whether a ``Host`` header names loopback, or one of those that are allowed, by name or by name and port."""
    text = header.strip().lower()
    known = {name.lower() for name in allowed}
    return "*" in known or text in known or host_of(text) in known or is_loopback(host_of(text))
