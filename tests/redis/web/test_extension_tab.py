"""An extension that brings a tab with pages, actions, files and facts about jobs."""

from __future__ import annotations

import json

import pytest

from offsider.config.web_tab import (
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebFilter,
    WebLink,
    WebNote,
    WebPage,
    WebPager,
    WebScan,
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
            fields={"/{name}/block": ("why",)},
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


def test_the_assets_are_only_on_its_pages(customers, ask):
    page = ask("/customers").body.decode()
    file = page.partition("/assets/customers-look.")[2].partition('"')[0]
    assert ask(f"/assets/customers-look.{file}").body in {b"b { color: red }", b"'use strict'"}
    assert "customers-look" not in ask("/").body.decode()


NAMES = [f"shop {number:02}" for number in range(60)]


def shops(request):
    """Sixty shops in pages, sorted as asked; with a filter they are scanned in steps of 40."""
    text, order = request.text("name"), request.choice("order", ("up", "down"), "up")
    names = NAMES if order == "up" else NAMES[::-1]
    if text:
        start = int(request.text("cursor") or 0)
        found = [name for name in names[start : start + 40] if text in name]
        pager = WebScan(len(names[start : start + 40]), 60, "40" if not start else "")
    else:
        found, pager = names[request.rows()], WebPager(len(names))
    table = WebTable("Shops", ["Shop"], [[name] for name in found], "No shops.", pager)
    return WebPage("Shops", [WebNote("All shops"), table], filter=WebFilter({"name": "Name", "city": "City"}))


@pytest.fixture
def shop_tab(config):
    config.add_web_tab(WebTab("shops", "Shops", "/shops", routes={"": shops}))


def test_a_table_has_pages_with_the_words_of_the_lists_of_jobs(shop_tab, ask, read):
    first, last = read("/shops"), read("/shops", "page=3&order=down")
    assert [row[0]["text"] for row in first["blocks"][1]["rows"]] == NAMES[:25]
    assert [row[0]["text"] for row in last["blocks"][1]["rows"]] == NAMES[9::-1]
    assert (first["paged"], first["pager"]["pages"], first["pager"]["next"]) == (1, 3, "/shops?page=2")
    assert last["pager"]["previous"] == "/shops?order=down&page=2"
    page = ask("/shops", "page=2").body.decode()
    assert "26\N{EN DASH}50 of 60" in page
    assert page.count('aria-label="Next page"') == 2
    assert '<nav class="pager" aria-label="Shops">' in page


def test_a_filter_keeps_the_other_fields_and_is_removed_by_its_chip(shop_tab, ask, read):
    data = read("/shops", "order=down&name=shop&city=Oslo&page=2&seen=3")["filter"]
    assert (data["fields"], data["kept"], data["path"]) == (
        {"name": "shop", "city": "Oslo"},
        {"order": "down"},
        "/shops?order=down",
    )
    assert data["without"] == {"name": "/shops?city=Oslo&order=down", "city": "/shops?name=shop&order=down"}
    page = ask("/shops", "order=down&name=%3Cb%3E").body.decode()
    assert '<input type="hidden" name="order" value="down">' in page
    assert 'name="name" maxlength="100" placeholder="Name" value="&lt;b&gt;"' in page
    assert '<span class="chip-name">Name</span> &lt;b&gt;' in page
    assert ask("/shops", f"name={'x' * 101}").status == 400


def test_a_scan_continues_and_shows_how_far_it_got(shop_tab, ask, read):
    first = read("/shops", "name=5")
    assert first["search"]["more"] == "/shops?name=5&cursor=40&seen=40&found=4"
    rows = [row[0]["text"] for row in first["blocks"][1]["rows"]]
    page = ask("/shops", "name=5").body.decode()
    assert "Found: 4. Scanned 40 of 60." in page
    assert '<tr data-key="shop 05">' in page
    assert 'id="blocks"' not in page  # a live update would drop the rows that later steps add
    second = read(*first["search"]["more"].split("?"))
    rows += [row[0]["text"] for row in second["blocks"][1]["rows"]]
    assert rows == [name for name in NAMES if "5" in name]
    assert "Found: 15. Scanned everything." in ask(*first["search"]["more"].split("?")).body.decode()
    empty = ask("/shops", "name=nothing&cursor=40").body.decode()
    assert "No shops." in empty
