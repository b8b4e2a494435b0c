"""The web UI: pages to inspect and manage jobs, run by ``offsider web`` or mounted in an application."""

from offsider.screens.errors import BadRequest, NotFound
from offsider.web.mounting import MountOptions, asgi, wsgi
from offsider.web.page_request import PageRequest
from offsider.web.request import Request
from offsider.web.results import ActionResult, Answer, Forbidden, Page, Text

__all__ = [
    "ActionResult",
    "Answer",
    "BadRequest",
    "Forbidden",
    "MountOptions",
    "NotFound",
    "Page",
    "PageRequest",
    "Request",
    "Text",
    "asgi",
    "wsgi",
]
