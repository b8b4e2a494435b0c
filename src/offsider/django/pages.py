"""The web UI below a URL of a Django project, for its staff.

In the project's ``urls.py``::

    path("jobs/", include(pages()))

`offsider.django.urls` adds the redirect to the login, and permissions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from offsider.screens.errors import BadRequest, ScreenError
from offsider.web.mounting import WHO, PageOptions, Servers, behind, checked_name
from offsider.web.request import INCOMPLETE, LARGEST_BODY_BYTES, TOO_LARGE
from offsider.web.results import TooLarge
from offsider.web.wsgi_adapter import request_of

if TYPE_CHECKING:
    from offsider.web.app import WebApp

#: Returns the user name for a Django request, or None.
Who: TypeAlias = Callable[[Any], str | None]
#: Key of Django's user there.
USER = "offsider.user"
NOT_ALLOWED = "These pages are for staff users with the permission offsider.view_jobs or offsider.change_jobs."


def staff(request: Any) -> str | None:
    """Return the name of a user who may enter the admin site; None for other users."""
    user = getattr(request, "user", None)
    if user is None or not user.is_active or not user.is_staff:
        return None
    return str(user.get_username())


def pages(
    config: Servers = None,
    *,
    authenticate: Who = staff,
    login: bool = False,
    **options: Unpack[PageOptions],
) -> list[Any]:
    """URL patterns to include.

    Args:
        config: the server, or several by name; default: the configuration of this process.
        authenticate: returns the user of a request, or None to deny access; default: `staff`.
        login: redirect users who are not logged in to the login of the admin site, or to ``LOGIN_URL`` without one.
        options: ``authorize``, ``redact``, ``read_only`` and ``app_url``, as in `offsider.web.MountOptions`.
    """

    @cache  # at the first request, so that `manage.py check` can report a wrong configuration
    def app() -> WebApp:
        return behind(config, **options)

    # Imported here: Django has no types, and is an extra.
    http, urls = import_module("django.http"), import_module("django.urls")

    def answer(request: Any, path: str = "", **_prefix: object) -> Any:
        who = checked_name(authenticate(request), authenticate)
        if who is None and login:
            if _is_logged_in(request):
                return http.HttpResponseForbidden(NOT_ALLOWED, content_type="text/plain")
            return import_module("django.contrib.auth.views").redirect_to_login(request.get_full_path(), _login_url())
        body = _body(request) if request.method == "POST" else b""
        response = app().respond(request_of(_environ(request, path, who), body))
        made: Any = http.HttpResponse(response.body, status=response.status)
        for name, value in response.headers:
            made[name] = value
        return made

    # The web UI checks the origin of each change itself, without tokens.
    exempt = import_module("django.views.decorators.csrf").csrf_exempt(answer)
    return [urls.re_path(r"^(?P<path>.*)$", exempt, name="pages")]


def _is_logged_in(request: Any) -> bool:
    user = getattr(request, "user", None)
    return user is not None and user.is_authenticated


def _login_url() -> str:
    urls = import_module("django.urls")
    try:
        return str(urls.reverse("admin:login"))
    except urls.NoReverseMatch:
        return str(import_module("django.shortcuts").resolve_url(import_module("django.conf").settings.LOGIN_URL))


def _environ(request: Any, path: str, who: str | None) -> dict[str, Any]:
    """Return the environ of a request, in WSGI's form, as if the pages were a mounted application."""
    root = request.path[: len(request.path) - len(path)].rstrip("/")
    return {
        **request.META,
        "PATH_INFO": ("/" + path.lstrip("/")).encode().decode("latin-1"),
        "SCRIPT_NAME": root.encode().decode("latin-1"),
        "wsgi.url_scheme": request.scheme or "http",
        WHO: who,
        USER: getattr(request, "user", None),
    }


def _body(request: Any) -> bytes | ScreenError:
    """Return the body, also if a middleware has read ``request.body`` or ``request.POST``."""
    http = import_module("django.http")
    length = str(request.META.get("CONTENT_LENGTH") or "0")
    if not length.isdecimal():
        return BadRequest(INCOMPLETE)
    if int(length[:10]) > LARGEST_BODY_BYTES:
        return TooLarge(TOO_LARGE)
    try:
        body: bytes = request.body
    except (http.RawPostDataException, http.UnreadablePostError):
        return BadRequest(INCOMPLETE)
    return body if len(body) <= LARGEST_BODY_BYTES else TooLarge(TOO_LARGE)
