"""Under which names the pages answer.

A page on the internet may give its own name the address 127.0.0.1 (DNS rebinding): the browser then takes our pages for
its own. So where nobody is asked for a password, a request has to name a host that is known.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection


def host_of(header: str) -> str:
    """The name in a ``Host`` header, without its port, in small letters."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
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


def is_known(header: str, allowed: Collection[str]) -> bool:
    """Whether a ``Host`` header names loopback, or one of those that are allowed, by name or by name and port."""
    text = header.strip().lower()
    known = {name.lower() for name in allowed}
    return "*" in known or text in known or host_of(text) in known or is_loopback(host_of(text))
