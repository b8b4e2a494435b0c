"""Results of pages, the errors that pages raise, and the messages about both.

Messages are translated for users, and in English for programs and the log. The texts of all pages are in
``locales/en.po``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from offsider.core.errors import OffsiderError
from offsider.web.translation import english

#: Translates a message and inserts its values, like `offsider.web.page_request.PageRequest.t`.
Translate = Callable[..., str]


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
        status: HTTP status.
    """

    body: str
    media_type: str = "text/plain; charset=utf-8"
    status: int = 200


Answer: TypeAlias = Page | ActionResult | Text
"""The result of a page or an action: a page, a redirect with a message, or text."""


class WebError(OffsiderError):
    """The request failed. The user sees the message, so it says what to do.

    Args:
        message: message id, or a text in English.
        values: values of the placeholders ``{name}``.

    Attributes:
        status: HTTP status.
    """

    status = 500

    def __init__(self, message: str, **values: object) -> None:
        self.message = Message(message, **values)
        super().__init__(str(self.message))


class BadRequest(WebError):
    """A parameter is invalid."""

    status = 400


class Forbidden(WebError):
    """The action is not allowed: for this user, from this site, or in read-only mode."""

    status = 403


class NotFound(WebError):
    """The page or its subject does not exist."""

    status = 404


class Crowded(WebError):
    """Too many requests wait for this server; more would take the threads of other servers."""

    status = 503


class TooLarge(WebError):
    """The request is too large."""

    status = 413


class NotAllowed(WebError):
    """The method is not allowed for this address. ``allowed`` lists the methods that are."""

    status = 405

    def __init__(self, message: str, allowed: str, **values: object) -> None:
        super().__init__(message, **values)
        self.allowed = allowed


class Message:
    """One or several message ids with their values.

    >>> str(Message("done.deleted", count=3) + Message("done.gone", count=1))
    'Deleted 3 jobs. 1 job was already gone.'
    """

    def __init__(self, message: str, **values: Any) -> None:
        self.parts: tuple[tuple[str, Mapping[str, Any]], ...] = ((message, values),)

    def __add__(self, more: Message) -> Message:
        both = Message("")
        both.parts = (*self.parts, *more.parts)
        return both

    def __str__(self) -> str:
        return self.text(english().translate)

    def text(self, t: Translate) -> str:
        """Return the text in the language of ``t``."""
        return " ".join(t(message, **values) for message, values in self.parts)


def with_gone(done: str, count: int, gone: int) -> Message:
    """Return the message about changed jobs, and about jobs that were already gone, if any."""
    changed = Message(done, count=count)
    return changed + Message("done.gone", count=gone) if gone else changed
