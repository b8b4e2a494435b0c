"""The web UI for staff users: ``path("offsider/", include("offsider.django.urls"))``.

Others are redirected to the login of the admin site. The permission ``offsider.view_jobs`` shows the pages,
``offsider.change_jobs`` allows the actions too.
"""

from __future__ import annotations

from typing import Any

from offsider.django.pages import USER, pages, staff
from offsider.web.page_request import PageRequest
from offsider.web.routing import LOOK

VIEW, CHANGE = "offsider.view_jobs", "offsider.change_jobs"
app_name = "offsider"


def may_look(request: Any) -> str | None:
    """Return the name of a staff user with one of the permissions; None for other users."""
    who = staff(request)
    return who if who and (request.user.has_perm(VIEW) or request.user.has_perm(CHANGE)) else None


def may_act(request: PageRequest, action: str) -> bool:
    """Return whether the user may see the pages, or do an action."""
    return action == LOOK or bool(request.http.context[USER].has_perm(CHANGE))


urlpatterns = pages(authenticate=may_look, authorize=may_act, login=True)
