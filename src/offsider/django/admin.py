"""A line in the index of the admin site, which links to the web UI."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse

from offsider.django.models import Jobs


@admin.register(Jobs)
class JobsAdmin(admin.ModelAdmin):
    """Redirects to the web UI. Without its URLs in the project there is no link."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponseRedirect:  # noqa: ARG002
        """Redirect to the web UI."""
        return HttpResponseRedirect(_root())

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> None:  # noqa: ARG002
        """No job is an object here: the pages of an object redirect to the index, or are forbidden."""
        return

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Whether the user sees the link."""
        return bool(_root()) and super().has_module_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """No jobs are added here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """No jobs are deleted here."""
        return False


def _root() -> str:
    try:
        return str(reverse("offsider:pages", kwargs={"path": ""}))
    except NoReverseMatch:
        return ""
