"""Pages on which everything that is stored can be seen and acted on: ``offsider web``, or mounted in an application."""

from offsider.web.answers import Answer, BadRequest, Done, Forbidden, NotFound, Page, Text
from offsider.web.mounting import asgi, wsgi
from offsider.web.request import Request
from offsider.web.visit import Visit

__all__ = [
    "Answer",
    "BadRequest",
    "Done",
    "Forbidden",
    "NotFound",
    "Page",
    "Request",
    "Text",
    "Visit",
    "asgi",
    "wsgi",
]
