"""Every text of the web pages that is translated, and what is missing or left over in each language.

    python scripts/page_texts.py             what each catalog lacks, and what no page says any more
    python scripts/page_texts.py --texts     all texts, one a line, as JSON

A text is what stands in ``t("…")`` in a template or in the code of the pages, the title of a ``Page`` and the question
of a ``Route``. What is handed on before it is translated is in a constant or a function of `ELSEWHERE`.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes

WEB = Path(__file__).resolve().parents[1] / "src" / "offsider" / "web"
#: Module -> constants and functions whose texts are translated later, and where in each item the text stands; None
#: where the items are the texts, or the constant is one. Of a function those count that it appends to its answer.
ELSEWHERE: dict[str, dict[str, int | None]] = {
    "answering": {"TITLES": None},
    "dashboard": {"_attention": None, "_unserved": None},
    "display": {"_SPANS": 2},
    "job": {"_FOR_GOOD": None, "_GONE": None, "_AT": None},
    "job_sets": {"_FOR_GOOD": None},
    "translation": {"_LARGE": 1},
    "visit": {"_TOO_LONG": None},
    "layout": {"TABS": 1, "COUNTERS": 1, "SCRIPT_TEXTS": None},
}
PLACE = re.compile(r"\{[a-z_]+\}")
#: Attributes that a browser shows or reads out.
SHOWN = frozenset({"aria-label", "title", "placeholder", "alt", "label", "data-confirm", "aria-description"})
#: Functions and classes whose first argument is a text.
SAYING = frozenset(
    {"t", "translate", "Words", "counted", "Verb", "NotFound", "BadRequest", "Forbidden", "NotAllowed", "Crowded"}
)
#: What is a name or a unit, and the same in every language.
NAMES = frozenset({"offsider", "JSON", "UTC", "JID", "TID", "RSS", "ms", "s", "Redis", "Valkey"})


def texts() -> set[str]:
    """Every text that a page may show."""
    found = {text for file in WEB.rglob("*.html") for text in in_template(file.read_text("utf-8"))}
    for file in WEB.rglob("*.py"):
        found |= set(in_code(ast.parse(file.read_text("utf-8")), ELSEWHERE.get(file.stem, {})))
    return found


def in_template(source: str) -> Iterator[str]:
    """The texts of a template."""
    tree = jinja2.Environment(autoescape=True).parse(source)
    for said in _said(tree):
        # t("a" if x else "b") has two.
        yield from _strings(said.expr1, said.expr2) if isinstance(said, nodes.CondExpr) else _strings(said)
    for loop in tree.find_all(nodes.For):
        # {% for title in ["a", "b"] %} … t(title)
        names = {said.name for part in loop.body for said in _said(part) if isinstance(said, nodes.Name)}
        if isinstance(loop.target, nodes.Name) and loop.target.name in names and isinstance(loop.iter, nodes.List):
            yield from _strings(*loop.iter.items)


def _said(tree: nodes.Node) -> Iterator[nodes.Node]:
    """What is given to ``t``."""
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name == "t" and call.args:
            yield call.args[0]


def _strings(*expressions: nodes.Node | None) -> Iterator[str]:
    for each in expressions:
        if isinstance(each, nodes.Const) and isinstance(each.value, str):
            yield each.value


def in_code(tree: ast.AST, elsewhere: dict[str, int | None]) -> Iterator[str]:
    """The texts of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _in_call(node)
        elif isinstance(node, ast.Assign):
            name = getattr(node.targets[0], "id", "")
            if name in elsewhere:
                yield from _in_constant(ast.literal_eval(node.value), elsewhere[name])
        elif isinstance(node, ast.FunctionDef) and node.name in elsewhere:
            yield from _appended(node)


def _in_constant(items: Any, place: int | None) -> Iterator[str]:
    each: Iterable[Any] = [items] if isinstance(items, str) else getattr(items, "values", lambda: items)()
    yield from (item if place is None else item[place] for item in each)


def _appended(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            yield from _constants(node.args)


def _in_call(call: ast.Call) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in SAYING:
        yield from _constants(call.args[:1])
    elif name in {"_selected", "_signalled"}:
        yield from _constants(call.args[1:])
    elif name in {"Page", "SetPage"}:
        yield from _constants(call.args[1:2])
    elif name == "Route":
        yield from _constants([each.value for each in call.keywords if each.arg == "confirm"])


def _constants(arguments: list[ast.expr]) -> Iterator[str]:
    for argument in arguments:
        # Of `"a" if x else "b"` both, and never what is compared in between.
        branches = [argument.body, argument.orelse] if isinstance(argument, ast.IfExp) else [argument]
        for branch in branches:
            if isinstance(branch, ast.Constant) and isinstance(branch.value, str) and branch.value:
                yield branch.value


class _Words(HTMLParser):
    """Collects what a reader sees or hears of a template."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_data(self, data: str) -> None:
        self.found.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        shown = SHOWN | {"value"} if tag == "input" and ("type", "submit") in attrs else SHOWN
        self.found += [value for name, value in attrs if value and name in shown]


def untranslated(source: str) -> list[str]:
    """The visible words of a template that stand outside of ``t(…)``."""
    plain = re.sub(r"\{#.*?#\}|\{%.*?%\}", "", source, flags=re.DOTALL)
    # What is put in is not the template's own text; quotes in it would end an attribute. It may be the name of a tag.
    plain = re.sub(r"(</?)\{\{.*?\}\}", r"\1div", plain, flags=re.DOTALL)
    plain = re.sub(r"\{\{.*?\}\}", " ", plain, flags=re.DOTALL)
    parser = _Words()
    parser.feed(plain)
    words = [word for text in parser.found for word in re.findall(r"[^\W\d_][\w'-]*", text)]
    return [word for word in words if word not in NAMES]


def catalogs() -> dict[str, dict[str, str]]:
    """The languages by code."""
    return {file.stem: json.loads(file.read_text("utf-8")) for file in sorted((WEB / "locales").glob("*.json"))}


def main() -> int:
    """Answers 1 when a language lacks a text or has one too many."""
    known = texts()
    if "--texts" in sys.argv:
        print(json.dumps(sorted(known), indent=0, ensure_ascii=False))
        return 0
    wrong = 0
    for code, catalog in catalogs().items():
        missing, left_over = sorted(known - set(catalog)), sorted(set(catalog) - known)
        wrong += len(missing) + len(left_over)
        print(f"{code}: {len(catalog)} texts, missing: {missing}, no longer said: {left_over}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
