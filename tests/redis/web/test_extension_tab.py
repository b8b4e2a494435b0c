"""An extension that brings a tab with pages, actions, files and facts about jobs."""

from __future__ import annotations

import json
import logging

import pytest

from offsider.config.web_tab import (
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebLink,
    WebNote,
    WebPage,
    WebTab,
    WebTable,
    WebTime,
)


class Customers:
    """Shows customers, and blocks them."""

    name = "customers"

    def __init__(self, folder):
        self.folder = folder
        self.blocked = []

    def install(self, config):
        tab = WebTab(
            "customers",
            "Customers",
            "/customers",
            routes={"": self.all, "/{name}": self.one},
            actions={"/{name}/block": self.block},
            job_facts=lambda payload: {"Customer": WebLink("Kim", "/customers/kim")},
            assets={"look.css": self.folder / "look.css", "look.js": self.folder / "look.js"},
        )
        config.add_web_tab(tab)

    def all(self, request):
        rows = [
            [WebLink("<i>kim</i>", "/customers/kim"), 12345, WebTime(1000.0), WebBadge("gold", "warn"), self.button()]
        ]
        page = request.number("page", highest=9)
        return WebPage("Customers", [WebNote(f"Page {page}"), WebTable("All", ["Name", "Jobs", "Since", "", ""], rows)])

    def one(self, request):
        if request.path("name") != "kim":
            return None
        return WebPage("Customer", [WebFacts("Facts", {"Name": "kim"}), WebButtons([self.button()])], subject="kim")

    def button(self):
        return WebButton("Block", "/customers/kim/block", {"why": "<b>"}, confirm="Block this customer?", danger=True)

    def block(self, request):
        self.blocked.append((request.path("name"), request.text("why")))
        return f"Blocked: {request.path('name')}"


@pytest.fixture
def customers(config, tmp_path):
    (tmp_path / "look.css").write_text("b { color: red }")
    (tmp_path / "look.js").write_text("'use strict'")
    extension = Customers(tmp_path)
    config.use(extension)
    return extension


def test_the_tab_is_on_every_page(customers, ask):
    assert b'<a href="/customers">Customers</a>' in ask("/").body
    assert b'<a href="/customers" aria-current="page">Customers</a>' in ask("/customers/kim").body


def test_the_tab_of_an_extension_that_is_installed_after_the_mount_has_its_pages(ask, customers):
    assert b'<a href="/customers" aria-current="page">Customers</a>' in ask("/customers/kim").body


def test_the_pages_are_escaped_and_available_as_json(customers, ask, read):
    data = read("/customers")
    assert (data["title"], data["subject"]) == ("Customers", "")
    assert data["blocks"][1]["rows"][0][1] == {"is": "number", "value": 12345, "digits": 0}
    page = ask("/customers").body.decode()
    assert "&lt;i&gt;kim&lt;/i&gt;" in page
    assert "12,345" in page
    assert '<span class="badge warn">gold</span>' in page
    assert 'data-confirm="Block this customer?"' in page
    assert ask("/customers", "page=10").status == 400
    assert ask("/customers/tim").status == 404
    assert b"<dt>Name</dt>" in ask("/customers/kim").body


def test_the_actions_are_protected_like_built_in_ones(customers, ask, ask_with):
    assert ask("/customers/kim/block", method="POST", sec_fetch_site="cross-site").status == 403
    refuse = ask_with(authorize=lambda visitor, action: action != "customers.block")
    assert refuse("/customers/kim/block", method="POST").status == 403
    assert customers.blocked == []
    answer = ask("/customers/kim/block", method="POST", body="why=late", accept="application/json")
    assert json.loads(answer.body) == {"done": "Blocked: kim"}
    assert customers.blocked == [("kim", "late")]


def test_buttons_ask_for_confirmation_without_our_script_too(customers, ask):
    page = ask("/customers").body.decode()
    assert '<input type="hidden" name="offsider_question" value="Block this customer?">' in page
    path, body = "/customers/kim/block", "why=late&offsider_question=Block+this+customer%3F"
    question = ask(path, method="POST", body=body).body.decode()
    assert "<p>Block this customer?</p>" in question
    assert '<input type="hidden" name="why" value="late">' in question
    assert customers.blocked == []
    assert ask(path, method="POST", body=f"{body}&confirmed=yes").status == 303
    assert customers.blocked == [("kim", "late")]


def test_an_action_without_a_message_shows_the_tabs_title(config, ask_with, caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    config.add_web_tab(WebTab("mute", "Mute", "/mute", actions={"/go": lambda request: None}))
    assert ask_with()("/mute/go", method="POST").status == 303
    assert caplog.records[-1].getMessage() == "mute.go: Mute"


def test_the_assets_are_only_on_its_pages(customers, ask):
    page = ask("/customers").body.decode()
    file = page.partition("/assets/customers-look.")[2].partition('"')[0]
    assert ask(f"/assets/customers-look.{file}").body in {b"b { color: red }", b"'use strict'"}
    assert "customers-look" not in ask("/").body.decode()
