"""What a page answers with, and the errors that a page may raise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from offsider.core.errors import OffsiderError
from offsider.web.words import Words


@dataclass(frozen=True)
class Page:
    """Something to read: HTML for people, and the same data as JSON for programs.

    Attributes:
        template: its name without ``.html``.
        title: what the page is called, in English; it is translated when it is shown.
        data: plain values that JSON can hold. The template sees them as ``data``.
        status: of HTTP.
        subject: a name that stands behind the title, as it is: a queue, a job.
        tab: the path of the tab to mark as the current one; empty: the one whose path begins the page's.
    """

    template: str
    title: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200
    subject: str = ""
    tab: str = ""


@dataclass(frozen=True)
class Done:
    """Something was done: people are sent on, programs are told.

    Attributes:
        to: the path to go on at, below the server's pages.
        message: what was done: people read it on the next page, programs and the audit log in English.
        data: more of it, for programs.
        headers: of HTTP, for browsers.
    """

    to: str
    message: Words
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Text:
    """Text of a kind of its own, as a scraper wants it."""

    body: str
    media_type: str = "text/plain; charset=utf-8"
    status: int = 200


Answer: TypeAlias = Page | Done | Text


class WebError(OffsiderError):
    """The request cannot be answered as asked. The message is shown to who asked, so it says what to do.

    Args:
        text: in English; it is translated when it is shown.
        values: what stands in its places: ``{name}``.
    """

    status = 500

    def __init__(self, text: str, **values: object) -> None:
        self.words = Words(text, **values)
        super().__init__(str(self.words))


class BadRequest(WebError):
    """A parameter is wrong."""

    status = 400


class Forbidden(WebError):
    """It may not be done: by this visitor, from that site, or at all in read-only mode."""

    status = 403


class NotFound(WebError):
    """There is no such page, or no longer what it would show."""

    status = 404


class Crowded(WebError):
    """So many requests wait for this server already that others would get no thread."""

    status = 503


class TooLarge(WebError):
    """The request holds more than is ever needed."""

    status = 413


class NotAllowed(WebError):
    """The address exists, and takes other methods. ``allowed`` names them."""

    status = 405

    def __init__(self, text: str, allowed: str, **values: object) -> None:
        super().__init__(text, **values)
        self.allowed = allowed
