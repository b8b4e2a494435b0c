"""Old addresses of pages: bookmarks and runbooks of Sidekiq teams use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from offsider.config.addresses import FLEET, class_path, error_path, jobs_path, stored_job_path, with_fields
from offsider.core.segments import segment
from offsider.screens.classes import ERRORS, PATH as CLASSES
from offsider.screens.plain import LINE_LETTERS
from offsider.web.page_request import PageRequest
from offsider.web.results import Redirect
from offsider.web.routing import LOOK, Route

#: Fields of the filter of old lists of jobs, and of Sidekiq's.
_FIELDS = {"substr": "text", "q": "text", "text": "text", "name": "class", "argument": "args", "group": "error"}
_SAME = ("error", "tag", "caller")
#: The time that ``older`` and ``newer`` were about, in seconds.
_TIMES = {"retry": "failed", "dead": "died"}
_MAX_SECONDS = 10**9 - 1


def _jobs(where: str, request: PageRequest) -> str:
    """Return the address of a list of jobs, with the filter of its old page."""
    fields = _FIELDS | {name: name for name in _SAME}
    sent = {new: request.sent(old)[:LINE_LETTERS] for old, new in fields.items() if request.sent(old)}
    older, newer = (request.number(name, default=0, lowest=0, highest=_MAX_SECONDS) for name in ("older", "newer"))
    if older:
        sent[_TIMES.get(where, "created")] = f"{f'{newer}s' if newer else ''}..{older}s"
    elif newer:
        sent[_TIMES.get(where, "created")] = f"{newer}s"
    return jobs_path(where, **sent)


def _queue(request: PageRequest) -> str:
    return _jobs(f"queue:{segment(request.path('name'))}", request)


def _job(where: str) -> Callable[[PageRequest], str]:
    return lambda request: stored_job_path(where, request.path("key"))


#: Old path -> the function that returns the new address, with its query.
MOVED: Mapping[str, Callable[[PageRequest], str]] = {
    **dict.fromkeys(("/busy", "/queues", "/servers", "/shards"), lambda _: FLEET),
    "/retries": partial(_jobs, "retry"),
    "/scheduled": partial(_jobs, "schedule"),
    "/dead": partial(_jobs, "dead"),
    "/morgue": partial(_jobs, "dead"),
    "/quarantine": partial(_jobs, "quarantine"),
    "/search": partial(_jobs, ""),
    "/callers": partial(_jobs, "queues"),
    "/retries/{key}": _job("retry"),
    "/scheduled/{key}": _job("schedule"),
    "/morgue/{key}": _job("dead"),
    "/queues/{name}": _queue,
    "/callers/{name}": _queue,
    "/errors": lambda _: ERRORS,
    "/errors/{id}": lambda request: error_path(request.path("id")),
    "/slos": lambda _: f"{CLASSES}?by=budget",
    "/metrics": lambda request: with_fields(CLASSES, **dict(request.query.pairs)),
    "/metrics/{name}": lambda request: class_path(request.path("name")),
}


def _route(path: str, new_address: Callable[[PageRequest], str]) -> Route:
    return Route("GET", path, LOOK, lambda request: Redirect(new_address(request)))


ROUTES = [_route(path, new_address) for path, new_address in MOVED.items()]
