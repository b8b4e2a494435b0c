"""Fields of a query or a form, which have bounds."""

from __future__ import annotations

from urllib.parse import parse_qsl

from offsider.web.answers import BadRequest

MOST_QUERY_FIELDS = 100
MOST_FORM_FIELDS = 1000
FORM_TYPE = "application/x-www-form-urlencoded"


class Fields:
    """Names and values in their order; a name may occur several times."""

    def __init__(self, pairs: list[tuple[str, str]] | None = None) -> None:
        self.pairs = pairs or []

    def get(self, name: str, default: str = "") -> str:
        """The first value of a name."""
        return next((value for key, value in self.pairs if key == name), default)

    def all(self, name: str) -> list[str]:
        """Every value of a name."""
        return [value for key, value in self.pairs if key == name]

    def __contains__(self, name: object) -> bool:
        return any(key == name for key, _ in self.pairs)


def query_fields(text: str) -> Fields:
    """The fields of a query string. Raises BadRequest when they are too many."""
    return _parsed(text, MOST_QUERY_FIELDS)


def form_fields(content_type: str, body: bytes) -> Fields:
    """The fields of a form that was sent.

    Raises:
        BadRequest: it is no such form, or has more than a thousand fields.
    """
    if not body:
        return Fields()
    if content_type.partition(";")[0].strip().lower() != FORM_TYPE:
        raise BadRequest(f"send fields as {FORM_TYPE}")
    return _parsed(body.decode("utf-8", "replace"), MOST_FORM_FIELDS)


def _parsed(text: str, most: int) -> Fields:
    try:
        return Fields(parse_qsl(text, keep_blank_values=True, max_num_fields=most, errors="replace"))
    except ValueError as error:
        raise BadRequest(f"there are more than {most} fields: send them in several requests") from error
