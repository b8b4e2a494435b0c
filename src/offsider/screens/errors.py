"""The errors that screens raise. The user sees their message, so it says what to do."""

from __future__ import annotations

from offsider.core.errors import OffsiderError
from offsider.screens.messages import Message


class ScreenError(OffsiderError):
    """The request failed. The user sees the message, so it says what to do.

    Args:
        message: message id, or a text in English.
        values: values of the placeholders ``{name}``.

    Attributes:
        status: HTTP status.
        headers: additional headers of the response.
    """

    status = 500
    headers: tuple[tuple[str, str], ...] = ()

    def __init__(self, message: str, **values: object) -> None:
        self.message = Message(message, **values)
        super().__init__(str(self.message))


class BadRequest(ScreenError):
    """A parameter is invalid."""

    status = 400


class NotFound(ScreenError):
    """The page or its subject does not exist."""

    status = 404
