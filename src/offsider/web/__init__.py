"""The web UI: pages to inspect and manage jobs, run by ``offsider web`` or mounted in an application."""

from typing import TYPE_CHECKING

from offsider.core import former_names
from offsider.web.mounting import asgi, wsgi
from offsider.web.page_request import PageRequest
from offsider.web.request import Request
from offsider.web.results import Answer, BadRequest, Done, Forbidden, NotFound, Page, Text

__all__ = [
    "Answer",
    "BadRequest",
    "Done",
    "Forbidden",
    "NotFound",
    "Page",
    "PageRequest",
    "Request",
    "Text",
    "asgi",
    "wsgi",
]

if not TYPE_CHECKING:  # type checkers report the former name
    __getattr__ = former_names.of_module(__name__, {"Visit": "offsider.web.PageRequest"})
