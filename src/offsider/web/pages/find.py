"""The search box of every page."""

from __future__ import annotations

from offsider.screens.find import address_of
from offsider.screens.plain import LINE_LETTERS
from offsider.web.page_request import PageRequest
from offsider.web.results import Redirect
from offsider.web.routing import LOOK, Route


def show(request: PageRequest) -> Redirect:
    """Redirect to the page of what the text names, or to a search in all jobs."""
    return Redirect(address_of(request.installation, request.text("q", most=LINE_LETTERS)))


ROUTES = [Route("GET", "/find", LOOK, show)]
