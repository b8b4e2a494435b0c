"""Which function answers which path.

A path is written as ``/queues/{name}/delete``: a part in braces takes a name as `offsider.web.segments` writes it.
Routes are tried in their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from offsider.web.answers import Answer, NotAllowed, NotFound
from offsider.web.segments import from_segment

if TYPE_CHECKING:
    from offsider.web.visit import Visit
    from offsider.web.words import Words

#: The action of what anybody may do who may see pages at all, and of looking.
LOOK = "page"
PREFER = "preferences"
_PART = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class Route:
    """One page or one action.

    Attributes:
        method: ``GET`` or ``POST``. GET never changes anything.
        path: below a server's pages, with parts in braces.
        action: what the authorisation hook is asked and the audit log is told: ``"page"``, ``"queue.clear"``.
        handler: a plain function, run in a thread.
        confirm: asked, in English, before it is done, when neither the browser's script nor a program has made sure
            already; empty: nothing is asked.
        asks: what is asked in its place, when that depends on what is given.
        wanted: whether it answers a request with this ``Accept`` header; None: it answers all. For addresses that a
            program and a person mean differently.
    """

    method: str
    path: str
    action: str
    handler: Callable[[Visit], Answer]
    confirm: str = ""
    asks: Callable[[Visit], Words] | None = None
    wanted: Callable[[str], bool] | None = None

    @property
    def changes(self) -> bool:
        """Whether jobs or workers are acted on."""
        return self.method == "POST" and self.action != PREFER


@dataclass(frozen=True)
class Match:
    """A route that was found, and what stood in the place of its braces."""

    route: Route
    parts: dict[str, str]


class Router:
    """Finds the route of a request."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = [(route, _compiled(route.path)) for route in routes]

    def match(self, method: str, path: str, accept: str = "") -> Match:
        """The route of a quoted path, for one who accepts such kinds of answers.

        Raises:
            NotFound: no route has this path.
            NotAllowed: some have, for other methods.
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
            raise NotAllowed("This address takes {methods}.", takes, methods=takes)
        raise NotFound("There is no such page.")


def _compiled(path: str) -> re.Pattern[str]:
    pieces = _PART.split(path)
    # Odd pieces are the names in braces.
    pattern = "".join(f"(?P<{piece}>[^/]+)" if number % 2 else re.escape(piece) for number, piece in enumerate(pieces))
    return re.compile(pattern)
