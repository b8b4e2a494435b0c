"""Routes from paths to functions.

A path is written like ``/queues/{name}/delete``. A placeholder matches a name as written by `segment`. Routes are tried
in order.

Names of queues and ids of jobs may contain any character. Percent encoding does not work: WSGI servers and many proxies
decode ``%2F`` before we see it. So unusual characters are written as ``~`` and two hex digits for each byte, which no
layer changes; usual names stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from offsider.web.results import Answer, Message, NotAllowed, NotFound

if TYPE_CHECKING:
    from offsider.web.page_request import PageRequest

#: The action of all pages, which every authorized user may see.
LOOK = "page"
PREFER = "preferences"
_PART = re.compile(r"\{([a-z_]+)\}")
_ODD = re.compile(r"[^A-Za-z0-9_.:-]")
_WRITTEN = re.compile(r"(?:~[0-9a-f]{2})+")
#: Segments that clients and servers normalize away.
_FOLDERS = re.compile(r"\.{1,2}")


@dataclass(frozen=True)
class Route:
    """A page or an action.

    Attributes:
        method: ``GET`` or ``POST``. GET never changes anything.
        path: path below a server's pages, with placeholders.
        action: name for the authorization hook and the audit log: ``"page"``, ``"queue.clear"``.
        handler: a synchronous function, run in a thread.
        asks: returns the confirmation question with the target, or None. Asked unless the browser's script or a
            program has confirmed already.
        wanted: whether it serves a request with this ``Accept`` header; None: it serves all. For addresses that
            have one response for programs and another one for users.
    """

    method: str
    path: str
    action: str
    handler: Callable[[PageRequest], Answer]
    asks: Callable[[PageRequest], Message | None] | None = None
    wanted: Callable[[str], bool] | None = None

    @property
    def changes(self) -> bool:
        """Whether the route changes jobs or workers."""
        return self.method == "POST" and self.action != PREFER


@dataclass(frozen=True)
class Match:
    """A matching route and the values of its placeholders."""

    route: Route
    parts: dict[str, str]


class Router:
    """Find the route of a request."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = [(route, _compiled(route.path)) for route in routes]

    def match(self, method: str, path: str, accept: str = "") -> Match:
        """Return the route of a quoted path and an ``Accept`` header.

        Raises:
            NotFound: no route matches the path.
            NotAllowed: routes match, but for other methods.
        """
        wanted = "GET" if method == "HEAD" else method
        allowed: set[str] = set()
        for route, pattern in self._routes:
            found = pattern.fullmatch(path)
            if found is None or (route.wanted is not None and not route.wanted(accept)):
                continue
            if route.method == wanted:
                return Match(route, {name: from_segment(unquote(part)) for name, part in found.groupdict().items()})
            allowed |= {"GET", "HEAD"} if route.method == "GET" else {route.method}
        if allowed:
            takes = ", ".join(sorted(allowed))
            raise NotAllowed("error.methods", takes, methods=takes)
        raise NotFound("error.no_page")


def _compiled(path: str) -> re.Pattern[str]:
    pieces = _PART.split(path)
    # Odd pieces are names of placeholders.
    pattern = "".join(f"(?P<{piece}>[^/]+)" if number % 2 else re.escape(piece) for number, piece in enumerate(pieces))
    return re.compile(pattern)


def segment(name: str) -> str:
    """Return a name as one segment of a path.

    >>> segment("default"), segment("a/b é"), segment("..")
    ('default', 'a~2fb~20~c3~a9', '~2e~2e')
    """
    if _FOLDERS.fullmatch(name):
        return _as_bytes(name)
    return _ODD.sub(lambda odd: _as_bytes(odd[0]), name) or "~"


def from_segment(text: str) -> str:
    """Return the name of a segment. A segment that was typed by hand, without escapes, is the name itself."""
    if text == "~":
        return ""
    return _WRITTEN.sub(lambda written: bytes.fromhex(written[0].replace("~", "")).decode(errors="replace"), text)


def _as_bytes(text: str) -> str:
    return "".join(f"~{byte:02x}" for byte in text.encode(errors="replace"))
