"""What extensions answer becomes plain values."""

from __future__ import annotations

import math

import pytest

from offsider.core.errors import ConfigurationError
from offsider.web.routing import LOOK, Route
from offsider.web.tabs import block, cell, current_tab, job_facts, names_of_assets, tab_assets, tab_routes
from offsider.wiring.config import Config
from offsider.wiring.web_tab import (
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebLink,
    WebNote,
    WebTab,
    WebTable,
    WebTime,
)


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
        (WebBadge("on", "good"), {"is": "badge", "text": "on", "tone": "good"}),
        (
            WebButton("Go", "/b/go"),
            {"is": "button", "text": "Go", "path": "/b/go", "fields": {}, "confirm": "", "danger": False},
        ),
    ],
)
def test_a_cell_says_what_it_is(value, expected):
    assert cell(value) == expected


def test_a_page_is_made_of_blocks():
    assert block(WebTable("T", ["a"], [[1]]))["rows"] == [[{"is": "number", "value": 1, "digits": 0}]]
    assert block(WebFacts("F", {"a": "b"}))["facts"] == [{"name": "a", "cell": {"is": "text", "text": "b"}}]
    assert block(WebNote("N", "bad")) == {"is": "note", "text": "N", "tone": "bad"}
    assert block(WebButtons([WebButton("Go", "/b/go")]))["buttons"][0]["text"] == "Go"
    with pytest.raises(TypeError, match="tables, facts, notes and buttons, not of str"):
        block("<b>")


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
def test_what_leads_elsewhere_is_an_error_of_the_extension_and_never_a_link(kind, path):
    with pytest.raises(ConfigurationError, match=f"{kind.__name__}: the path .* has to begin with exactly one slash"):
        kind("x", path)
    made = kind("x", "/fine")
    object.__setattr__(made, "path", path)
    assert cell(made) == {"is": "text", "text": "x"}


def test_odd_letters_of_a_path_are_written_as_bytes():
    assert cell(WebLink("x", "/a\\b\nc ä?q=1&r=%20#s"))["path"] == "/a%5Cb%0Ac%20%C3%A4?q=1&r=%20#s"


def config_with(*tabs):
    config = Config()
    for tab in tabs:
        config.add_web_tab(tab)
    return config


def test_a_tab_cannot_take_the_place_of_another_page():
    own = [Route("GET", "/busy", LOOK, lambda visit: None)]
    view = {"": lambda visit: None}
    with pytest.raises(ConfigurationError, match="'mine': there is a page /busy already"):
        list(tab_routes(config_with(WebTab("mine", "Mine", "/busy", view)), own))
    with pytest.raises(ConfigurationError, match="'b': there is a page /x already"):
        list(tab_routes(config_with(WebTab("a", "A", "/x", view), WebTab("b", "B", "/x", view)), own))


def test_routes_carry_the_action_that_is_authorised():
    tab = WebTab("mine", "Mine", "/mine", {"": lambda visit: None}, {"/{id}/pause": lambda visit: "ok"})
    routes = list(tab_routes(config_with(tab), []))
    assert [(route.method, route.path, route.action) for route in routes] == [
        ("GET", "/mine", "page"),
        ("POST", "/mine/{id}/pause", "mine.pause"),
    ]


def test_a_path_belongs_to_one_tab():
    tab = WebTab("mine", "Mine", "/mine")
    config = config_with(tab)
    assert current_tab(config, "/mine/3") is current_tab(config, "/mine") is tab
    assert current_tab(config, "/mines") is None


def test_files_of_a_tab_have_its_name_before_theirs(tmp_path):
    file = tmp_path / "a.css"
    file.write_text("b {}")
    tab = WebTab("mine", "Mine", "/mine", assets={"a.css": file})
    assert names_of_assets(tab, ".css") == ["mine-a.css"]
    assert names_of_assets(tab, ".js") == names_of_assets(None, ".css") == []
    assert "mine-a.css" in tab_assets(config_with(tab))


def test_facts_about_a_job_come_from_all_tabs_and_a_broken_one_is_left_out(caplog):
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
