"""A line with counters in the index of the admin site, which links to the web UI."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse
from django.utils.functional import lazy

from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure
from offsider.django.models import Jobs
from offsider.inspector import Stats

CACHE_SECONDS = 5.0


def title() -> str:
    """Return the text of the link. The counters are up to five seconds old."""
    from offsider.web.counters import cache_of  # a project without the web UI may lack its packages

    try:
        stats = cache_of(Installation.of(None), Stats.read, CACHE_SECONDS).get()
    except RedisFailure:
        return "background jobs (Redis is unavailable)"
    return f"background jobs ({stats.enqueued:,} enqueued, {stats.retries:,} retries, {stats.dead:,} dead)"


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


# Migrations read the original option, so that no new one is created for this text.
Jobs._meta.verbose_name_plural = lazy(title, str)()  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue]


def _root() -> str:
    try:
        return str(reverse("offsider:pages", kwargs={"path": ""}))
    except NoReverseMatch:
        return ""
