"""The web pages below a URL of a Django project, for its staff.

In the project's ``urls.py``::

    path("jobs/", include(pages()))
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias
from urllib.parse import quote

from offsider.web.mounting import Servers, check_extra, named
from offsider.web.options import Authorize, WebOptions
from offsider.web.redaction import Redact
from offsider.web.request import LARGEST_BODY_BYTES, Request

#: Given Django's request, answers the name of who asks, or None.
Who: TypeAlias = Callable[[Any], str | None]
#: Where the name of the visitor lies until our own hook asks for it.
WHO = "offsider.who"
_LETTERS = "/:@!$&'()*+,;=~"


def staff(request: Any) -> str | None:
    """The name of a user who may enter the admin site; None for all others."""
    user = getattr(request, "user", None)
    if user is None or not user.is_active or not user.is_staff:
        return None
    return str(user.get_username())


def pages(
    config: Servers = None,
    *,
    authenticate: Who = staff,
    authorize: Authorize | None = None,
    redact: Redact | None = None,
    read_only: bool = False,
    app_url: str = "",
) -> list[Any]:
    """URL patterns to include.

    Args:
        config: which server, by default this process's; several by name.
        authenticate: answers the name of who asks, or None; by default staff may come.
        authorize, redact, read_only, app_url: as of `offsider.web.wsgi`.
    """
    check_extra()
    from offsider.web.app import WebApp

    options = WebOptions(
        servers=named(config),
        authenticate=_who,
        authorize=authorize,
        redact=redact,
        read_only=read_only,
        check_host=False,  # Django's ALLOWED_HOSTS does
        app_url=app_url,
    )
    app = WebApp(options)
    # Django brings no types, and is an extra: it is imported by who calls this.
    http, urls = import_module("django.http"), import_module("django.urls")

    def answer(request: Any, path: str = "") -> Any:
        response = app.respond(_request_of(request, path, authenticate(request)))
        made: Any = http.HttpResponse(response.body, status=response.status)
        for name, value in response.headers:
            made[name] = value
        return made

    # The pages look at the origin of each change themselves, without tokens.
    exempt = import_module("django.views.decorators.csrf").csrf_exempt(answer)
    return [urls.re_path(r"^(?P<path>.*)$", exempt)]


def _who(request: Request) -> str | None:
    return request.context[WHO] or None


def _request_of(request: Any, path: str, who: str | None) -> Request:
    root = request.path[: len(request.path) - len(path)].rstrip("/")
    length = str(request.META.get("CONTENT_LENGTH") or "0")
    too_large = not length.isdecimal() or int(length) > LARGEST_BODY_BYTES
    return Request(
        method=request.method or "GET",
        path="/" + quote(path, safe=_LETTERS),
        root=quote(root, safe=_LETTERS),
        query=request.META.get("QUERY_STRING", ""),
        headers={name.lower(): value for name, value in request.headers.items()},
        body=b"" if too_large else request.body,
        scheme=request.scheme or "http",
        client=request.META.get("REMOTE_ADDR", ""),
        context={**request.META, WHO: who},
        too_large=too_large,
    )
