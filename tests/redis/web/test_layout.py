"""The frame of every page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

PATHS = ("/", "/busy", "/servers", "/queues", "/retries", "/none")


class Page(HTMLParser):
    """Every start tag with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def tags(ask, path):
    return Page(ask(path).body.decode()).tags


def test_pages_have_nothing_inline_and_nothing_external(ask):
    for path in PATHS:
        for tag, attributes in tags(ask, path):
            assert tag != "style"
            assert not [name for name in attributes if name == "style" or name.startswith("on")], (path, tag)
            if tag == "script":
                assert attributes["src"].startswith("/assets/")
            if tag == "link":
                assert attributes["href"].startswith("/assets/")


def test_forms_post_to_our_own_pages(ask):
    for path in PATHS:
        for tag, attributes in tags(ask, path):
            if tag == "form":
                assert attributes["action"].startswith("/"), path


def test_the_current_tab_is_marked(ask):
    page = ask("/busy").body.decode()
    assert re.findall(r'<a href="([^"]*)" aria-current="page">', page) == ["/busy"]


def test_the_menu_links_to_controls_before_any_is_set(ask):
    assert re.search(r'href="/controls"[^>]*>Controls', ask("/").body.decode())
    assert re.search(r'href="/controls"[^>]*aria-current="page"', ask("/controls").body.decode())


def test_pages_work_with_screen_reader_and_keyboard(ask):
    page = ask("/").body.decode()
    for part in (
        '<main id="main"',
        'class="skip" href="#main"',
        'role="search"',
        '<nav class="tabs" aria-label=',
        "aria-live",
    ):
        assert part in page
    assert page.count("<h1") == 1


def test_links_have_the_mount_path(config):
    from offsider.config.installation import Installation
    from offsider.web.app import WebApp
    from offsider.web.options import WebOptions
    from offsider.web.request import Request

    app = WebApp(WebOptions({"main": Installation.of(config)}, app_url="https://shop.example.com/"))
    page = app.respond(Request("GET", "/busy", root="/jobs", headers={"host": "localhost", "accept": "text/html"}))
    for tag, attributes in Page(page.body.decode()).tags:
        for name in ("href", "src", "action"):
            address = attributes.get(name, "/jobs/")
            assert address.startswith(("/jobs/", "#", "https://shop.example.com/")), (tag, address)


def test_the_page_names_its_language_and_direction(ask):
    assert '<html lang="en" dir="ltr"' in ask("/", accept_language="ar").body.decode()


def test_a_large_counter_is_abbreviated_with_the_full_number_as_title(ask, raw_redis):
    raw_redis.set("stat:processed", 8_217_234)
    raw_redis.set("stat:failed", 999_999)
    page = ask("/busy").body.decode()
    assert '<b title="8,217,234"><bdi aria-hidden="true">8.2M</bdi><i class="unseen">8,217,234</i></b>' in page
    assert "<b>999,999</b>" in page
