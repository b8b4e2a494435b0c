"""Fields of a query or a form, with limits."""

from __future__ import annotations

from urllib.parse import parse_qsl

from offsider.web.results import BadRequest

MOST_QUERY_FIELDS = 100
MOST_FORM_FIELDS = 1000
FORM_TYPE = "application/x-www-form-urlencoded"


class Fields:
    """Names and values in order; a name may occur several times."""

    def __init__(self, pairs: list[tuple[str, str]] | None = None) -> None:
        self.pairs = pairs or []

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of a name."""
        return next((value for key, value in self.pairs if key == name), default)

    def all(self, name: str) -> list[str]:
        """Return all values of a name."""
        return [value for key, value in self.pairs if key == name]

    def __contains__(self, name: object) -> bool:
        return any(key == name for key, _ in self.pairs)


def query_fields(text: str) -> Fields:
    """Parse a query string. Raises BadRequest if it has too many fields."""
    return _parsed(text, MOST_QUERY_FIELDS)


def form_fields(content_type: str, body: bytes) -> Fields:
    """Parse a submitted form.

    Raises:
        BadRequest: it is not URL-encoded, or has more than 1,000 fields.
    """
    if not body:
        return Fields()
    if content_type.partition(";")[0].strip().lower() != FORM_TYPE:
        raise BadRequest(f"the form must be sent as {FORM_TYPE}")
    return _parsed(body.decode("utf-8", "replace"), MOST_FORM_FIELDS)


def _parsed(text: str, most: int) -> Fields:
    try:
        return Fields(parse_qsl(text, keep_blank_values=True, max_num_fields=most, errors="replace"))
    except ValueError as error:
        raise BadRequest(f"more than {most} fields: split them into several requests") from error
