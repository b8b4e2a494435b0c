"""Results of extensions become plain values."""

from __future__ import annotations

import math

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.web_tab import (
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebFilter,
    WebLink,
    WebLinks,
    WebNote,
    WebPage,
    WebPager,
    WebProgress,
    WebScan,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.core.errors import ConfigurationError
from offsider.web.extension_tabs import block, cell, current_tab, job_facts, names_of_assets, tab_assets, tab_routes
from offsider.web.routing import LOOK, Route


@pytest.mark.parametrize(
    "value,expected",
    [
        ("a", {"is": "text", "text": "a"}),
        (None, {"is": "text", "text": ""}),
        (True, {"is": "text", "text": "True"}),
        (3, {"is": "number", "value": 3, "digits": 0}),
        (2.5, {"is": "number", "value": 2.5, "digits": 2}),
        (WebLink("a", "/b"), {"is": "link", "text": "a", "path": "/b"}),
        (WebTime(1.0), {"is": "time", "at": 1.0}),
        (WebTime(math.nan), {"is": "time", "at": None}),
        (math.inf, {"is": "text", "text": "inf"}),
        (WebProgress(1, 4), {"is": "progress", "done": 1, "total": 4}),
        (
            WebLinks([WebLink("a", "/b?tag=a"), "<b>"]),
            {"is": "links", "links": [{"is": "link", "text": "a", "path": "/b?tag=a"}, {"is": "text", "text": "<b>"}]},
        ),
        (WebBadge("on", "good"), {"is": "badge", "text": "on", "tone": "good"}),
        (
            WebButton("Go", "/b/go"),
            {"is": "button", "text": "Go", "path": "/b/go", "fields": {}, "confirm": "", "danger": False},
        ),
    ],
)
def test_a_cell_has_its_kind(value, expected):
    assert cell(value) == expected


def test_a_page_consists_of_blocks():
    assert block(WebTable("T", ["a"], [[1]]))["rows"] == [[{"is": "number", "value": 1, "digits": 0}]]
    assert block(WebTable("T", ["a", "b"], [["", None], ["x", 2]]))["numeric"] == [1]
    assert block(WebFacts("F", {"a": "b"}))["facts"] == [{"name": "a", "cell": {"is": "text", "text": "b"}}]
    assert block(WebNote("N", "bad")) == {"is": "note", "text": "N", "tone": "bad"}
    assert block(WebButtons([WebButton("Go", "/b/go")]))["buttons"][0]["text"] == "Go"
    with pytest.raises(TypeError, match="WebTable, WebFacts, WebNote, WebButtons and WebForm, got str"):
        block("<b>")


def test_one_table_of_a_page_has_a_pager():
    first, second = (
        WebTable("First", ["a"], [], pager=WebPager(3)),
        WebTable("Second", ["a"], [], pager=WebScan(1, 2, "")),
    )
    assert WebPage("P", [first, WebTable("Third", ["a"], [])]).blocks[0] is first
    with pytest.raises(ConfigurationError, match=r"only one table can have a pager, got \['First', 'Second'\]"):
        WebPage("P", [first, second])


@pytest.mark.parametrize("name", ["page", "cursor", "seen", "found", "format"])
def test_a_filter_cannot_use_the_fields_of_pagers(name):
    with pytest.raises(ConfigurationError, match=f"pagers use the field '{name}'"):
        WebFilter({"tag": "Tag", name: "Other"})


@pytest.mark.parametrize(
    "path",
    [
        "javascript:alert(1)",
        "https://evil.com",
        "//evil.com",
        "/\\evil.com",
        "\\\\evil.com",
        "/\t/evil.com",
        "evil",
        "",
    ],
)
@pytest.mark.parametrize("kind", [WebLink, WebButton])
def test_external_addresses_are_errors_and_never_links(kind, path):
    with pytest.raises(ConfigurationError, match=f"{kind.__name__}: the path .* has to begin with exactly one slash"):
        kind("x", path)
    made = kind("x", "/fine")
    object.__setattr__(made, "path", path)
    assert cell(made) == {"is": "text", "text": "x"}


def test_special_characters_of_a_path_are_quoted():
    assert cell(WebLink("x", "/a\\b\nc ä?q=1&r=%20#s"))["path"] == "/a%5Cb%0Ac%20%C3%A4?q=1&r=%20#s"


def config_with(*tabs):
    config = Config()
    for tab in tabs:
        config.add_web_tab(tab)
    return Installation.of(config)


def test_a_tab_cannot_replace_another_page():
    own = [Route("GET", "/busy", LOOK, lambda request: None)]
    view = {"": lambda request: None}
    with pytest.raises(ConfigurationError, match="'mine': the page /busy already exists"):
        list(tab_routes(config_with(WebTab("mine", "Mine", "/busy", view)), own))
    with pytest.raises(ConfigurationError, match="'b': the page /x already exists"):
        list(tab_routes(config_with(WebTab("a", "A", "/x", view), WebTab("b", "B", "/x", view)), own))


def test_routes_have_the_action_for_authorization():
    tab = WebTab("mine", "Mine", "/mine", {"": lambda request: None}, {"/{id}/pause": lambda request: "ok"})
    routes = list(tab_routes(config_with(tab), []))
    assert [(route.method, route.path, route.action) for route in routes if route.path.startswith("/mine")] == [
        ("GET", "/mine", "page"),
        ("POST", "/mine/{id}/pause", "mine.pause"),
    ]


def test_a_path_belongs_to_one_tab():
    tab = WebTab("mine", "Mine", "/mine")
    config = config_with(tab)
    assert current_tab(config, "/mine/3") is current_tab(config, "/mine") is tab
    assert current_tab(config, "/mines") is None


def test_files_of_a_tab_have_its_name_as_prefix(tmp_path):
    file = tmp_path / "a.css"
    file.write_text("b {}")
    tab = WebTab("mine", "Mine", "/mine", assets={"a.css": file})
    assert names_of_assets(tab, ".css") == ["mine-a.css"]
    assert names_of_assets(tab, ".js") == names_of_assets(None, ".css") == []
    assert "mine-a.css" in tab_assets(config_with(tab))


def test_facts_about_a_job_come_from_all_tabs_except_failing_ones(caplog):
    def broken(payload):
        raise KeyError("x")

    config = config_with(
        WebTab("a", "A", "/a", job_facts=lambda payload: {"Customer": payload["args"][0]}),
        WebTab("b", "B", "/b", job_facts=broken),
        WebTab("c", "C", "/c"),
    )
    assert job_facts(config, {"args": [7]}) == [{"name": "Customer", "cell": {"is": "number", "value": 7, "digits": 0}}]
    assert job_facts(config, None) == []
    assert "job_facts of the web tab 'b' failed" in caplog.text
