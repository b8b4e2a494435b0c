"""Jobs pushed by a Django project record their route. In a process of its own: Django is set up once."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from offsider.core.errors import ConfigurationError

PROJECT = """
    import asyncio, json, sys
    from django.conf import settings

    settings.configure(
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        SECRET_KEY="x",
        MIDDLEWARE=["offsider.django.middleware.CallerId"],
    )

    import django
    from django.http import HttpResponse
    from django.test import AsyncClient, Client as Browser
    from django.urls import include, path
    from offsider import Client, Config
    from offsider.config import test_mode

    django.setup()
    client = Client(Config())

    def order(request, number):
        client.push({"class": "X", "args": []})
        return HttpResponse("ok")

    async def slow(request):
        client.push({"class": "X", "args": []})
        return HttpResponse("ok")

    urlpatterns = [path("orders/", include([path("<int:number>/", order)])), path("slow/", slow)]
    pushes = []

    async def asynchronously():
        browser = AsyncClient()
        await browser.get("/orders/7/")
        await browser.get("/slow/", headers={"X-Request-ID": "req-2"})

    with test_mode.diverted(pushes.extend):
        Browser().post("/orders/7/", headers={"X-Request-ID": "req-1"})
        Browser().get("/slow/")
        Browser().get("/nowhere/")
        asyncio.run(asynchronously())
        client.push({"class": "X", "args": []})
    print(json.dumps([[job.payload.get("meta.caller_id"), job.payload.get("correlation_id")] for job in pushes]))
"""


def test_routes_of_django_sync_and_async():
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROJECT)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    found = json.loads(output.stdout)
    assert [caller for caller, _ in found] == [
        "POST /orders/<int:number>/",
        "GET /slow/",
        "GET /orders/<int:number>/",
        "GET /slow/",
        None,
    ]
    ids = [correlation for _, correlation in found]
    assert (ids[0], ids[3], ids[4]) == ("req-1", "req-2", None)
    assert len(ids[1]) == len(ids[2]) == 32


def test_without_django_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "asgiref.sync", None)
    monkeypatch.delitem(sys.modules, "offsider.django.middleware", raising=False)
    with pytest.raises(ConfigurationError, match=r'pip install "offsider\[django\]"'):
        import offsider.django.middleware  # noqa: F401
