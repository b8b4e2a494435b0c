"""Results of pages, and the errors of a request by HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from offsider.screens.errors import ScreenError
from offsider.screens.messages import Message

RETRY_AFTER = ("retry-after", "2")


@dataclass(frozen=True)
class Page:
    """A page: HTML for browsers, and the same data as JSON for programs.

    Attributes:
        template: name of the template without ``.html``.
        title: message id of the heading.
        data: JSON values, available as ``data`` in the template.
        status: HTTP status.
        subject: a name shown after the title, not translated: a queue, a job.
        tab: path of the tab to highlight; empty: the tab whose path is a prefix of the page's path.
        live: whether our script refreshes the page.
    """

    template: str
    title: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200
    subject: str = ""
    tab: str = ""
    live: bool = True


@dataclass(frozen=True)
class ActionResult:
    """The result of an action: browsers are redirected, programs get JSON.

    Attributes:
        to: path to redirect to, below the server's pages.
        message: the result, for the next page, for programs and the audit log.
        data: more details for programs.
        headers: HTTP headers for browsers.
    """

    to: str
    message: Message
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Text:
    """Text with its own media type, for example for a scraper.

    Attributes:
        body: the text.
        media_type: value of the header ``Content-Type``.
    """

    body: str
    media_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Redirect:
    """Another address of the same page.

    Attributes:
        to: path below the server's pages, with its query.
    """

    to: str


Answer: TypeAlias = Page | ActionResult | Text | Redirect
"""The result of a page or an action: a page, a redirect with a message, text, or a redirect."""


class Forbidden(ScreenError):
    """The action is not allowed: for this user, from this site, or in read-only mode."""

    status = 403


class Crowded(ScreenError):
    """Too many requests wait for this server; more would take the threads of other servers."""

    status = 503
    headers = (RETRY_AFTER,)


class TooLarge(ScreenError):
    """The request is too large."""

    status = 413


class NotAllowed(ScreenError):
    """The method is not allowed for this address. ``allowed`` lists the methods that are."""

    status = 405

    def __init__(self, message: str, allowed: str, **values: object) -> None:
        super().__init__(message, **values)
        self.headers = (("allow", allowed),)
