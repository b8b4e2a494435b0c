"""The results of pages."""

from __future__ import annotations

import pytest

from offsider.core.errors import OffsiderError
from offsider.web.results import ActionResult, BadRequest, Forbidden, NotAllowed, NotFound, Page, Text, TooLarge


@pytest.mark.parametrize(
    "error,status",
    [
        (BadRequest("x"), 400),
        (Forbidden("x"), 403),
        (NotFound("x"), 404),
        (TooLarge("x"), 413),
        (NotAllowed("x", "GET"), 405),
    ],
)
def test_each_error_has_its_status_and_is_an_offsider_error(error, status):
    assert error.status == status
    assert isinstance(error, OffsiderError)


def test_results_are_plain_values():
    assert Page("dashboard", "Dashboard").data == {}
    assert ActionResult("/busy", "Asked").headers == ()
    assert Text("ok").status == 200
