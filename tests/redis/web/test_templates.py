"""From data to HTML."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsider.web import templates
from offsider.web.templates import FOLDER, environment


def test_values_are_escaped_and_missing_ones_are_errors():
    from jinja2 import UndefinedError

    assert environment().from_string("{{ x }}").render(x="<b>&\"'") == "&lt;b&gt;&amp;&#34;&#39;"
    with pytest.raises(UndefinedError):
        environment().from_string("{{ x.y }}").render(x={})


def test_a_key_is_preferred_to_a_method_of_its_dict():
    assert environment().from_string("{{ x.items }}|{{ x.keys() | length }}").render(x={"items": 5}) == "5|1"


def test_no_template_disables_escaping():
    for file in Path(FOLDER).rglob("*.html"):
        text = file.read_text()
        assert "| safe" not in text, file
        assert "|safe" not in text, file
        assert "autoescape" not in text, file


def test_every_template_compiles():
    templates.warm()
