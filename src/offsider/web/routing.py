"""Routes from paths to functions.

A path is written like ``/queues/{name}/delete``; a placeholder matches a name as `offsider.core.segments` writes it.
Routes are tried in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.core.segments import parts_of, pattern_of
from offsider.screens.errors import NotFound
from offsider.web.results import Answer, NotAllowed

if TYPE_CHECKING:
    from offsider.web.page_request import PageRequest

#: The action of all pages, which every authorized user may see.
LOOK = "page"


@dataclass(frozen=True)
class Route:
    """A page or an action.

    Attributes:
        method: ``GET`` or ``POST``. GET never changes anything.
        path: path below a server's pages, with placeholders.
        action: name for the authorization hook and the audit log: ``"page"``, ``"job.delete"``.
        handler: a synchronous function, run in a thread.
        fields: names of the form and query fields of a change; any other field is refused.
        wanted: whether it serves a request with this ``Accept`` header; None: it serves all. For addresses that
            have one response for programs and another one for users.
    """

    method: str
    path: str
    action: str
    handler: Callable[[PageRequest], Answer]
    fields: Collection[str] = ()
    wanted: Callable[[str], bool] | None = None

    @property
    def changes(self) -> bool:
        """Whether the route changes jobs or workers."""
        return self.method == "POST"


@dataclass(frozen=True)
class Match:
    """A matching route and the values of its placeholders."""

    route: Route
    parts: dict[str, str]


class Router:
    """Find the route of a request."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = [(route, pattern_of(route.path)) for route in routes]

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
                return Match(route, parts_of(found))
            allowed |= {"GET", "HEAD"} if route.method == "GET" else {route.method}
        if allowed:
            takes = ", ".join(sorted(allowed))
            raise NotAllowed("error.methods", takes, methods=takes)
        raise NotFound("error.no_page")
