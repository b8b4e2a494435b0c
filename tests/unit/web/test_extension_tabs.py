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
from offsider.screens.plain import block, cell
from offsider.screens.tabs import job_facts
from offsider.web.extension_tabs import tab_routes
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
    with pytest.raises(TypeError, match="a page consists of blocks, such as WebTable or WebFacts, got str"):
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
