"""The web pages in a Django project, asked through Django's own test client."""

from __future__ import annotations

import sys
import types

import pytest

from tests import django_project

django_project.set_up()


class User:
    """Somebody who is logged in."""

    is_active = True

    def __init__(self, *, is_staff):
        self.is_staff = is_staff

    def get_username(self):
        return "kim"


@pytest.fixture
def client(config, monkeypatch):
    """Django's client of a project that has our pages below /jobs/."""
    from django.test import Client
    from django.urls import clear_url_caches, include, path

    from offsider.django.pages import pages, staff

    urls = types.ModuleType(django_project.URLS)

    def who(request):
        word = request.headers.get("x-user")
        if word:
            request.user = User(is_staff=word == "staff")
        return staff(request)

    prefixes = ("jobs/", "<slug:tenant>/jobs/", "noslash")
    urls.urlpatterns = [path(prefix, include(pages(config, authenticate=who))) for prefix in prefixes]
    monkeypatch.setitem(sys.modules, django_project.URLS, urls)
    clear_url_caches()
    return Client(SERVER_NAME="shop.example.com", enforce_csrf_checks=True)


def test_staff_sees_the_pages_below_their_url(client):
    page = client.get("/jobs/fleet", headers={"x-user": "staff"})
    assert page.status_code == 200
    assert b'href="/jobs/fleet"' in page.content
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert client.get("/jobs/", headers={"x-user": "staff"}).status_code == 200


@pytest.mark.parametrize("path", ["/jobs/fleet/", "/acme/jobs/fleet", "/noslash/fleet"])
def test_the_pages_are_served_below_any_prefix(client, path):
    page = client.get(path, headers={"x-user": "staff"})
    assert page.status_code == 200
    assert f'href="{path.rstrip("/")}"'.encode() in page.content


def test_other_users_are_refused(client):
    assert client.get("/jobs/").status_code == 403
    assert client.get("/jobs/", headers={"x-user": "customer"}).status_code == 403


def test_a_change_needs_no_token_but_our_own_origin(client):
    form = {
        "path": "/jobs/fleet/processes/quiet",
        "data": "every=yes&confirmed=yes",
        "content_type": "application/x-www-form-urlencoded",
    }
    moved = client.post(**form, headers={"x-user": "staff", "sec-fetch-site": "same-origin"})
    assert (moved.status_code, moved.headers["location"]) == (303, "/jobs/fleet/processes")
    assert client.post(**form, headers={"x-user": "staff", "sec-fetch-site": "cross-site"}).status_code == 403
    assert client.post(**form, headers={"x-user": "staff"}).status_code == 403


def test_a_large_body_is_refused(client):
    headers = {"x-user": "staff", "sec-fetch-site": "same-origin"}
    sent = client.post("/jobs/fleet/processes/quiet", data="x" * 70_000, content_type="text/plain", headers=headers)
    assert sent.status_code == 413
