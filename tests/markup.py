"""An HTML page as the standard library's parser reads it: its elements, its words, its forms.

page = Markup(response.text)
page.text                                    the visible words, with single spaces
page.all("a", href="/busy")                  elements by name and attributes
form = page.form(lambda form: "/clear" in form.action)
form.fields                                  what a browser would send without any click: [(name, value)]
form.buttons                                 the buttons that send it: [(name, value)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
UNSEEN = frozenset({"script", "style", "template", "title"})


@dataclass
class Element:
    """One start tag and its content."""

    tag: str
    attributes: dict[str, str]
    words: list[str] = field(default_factory=list[str])
    parents: tuple[Element, ...] = ()

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def __getitem__(self, name: str) -> str:
        return self.attributes.get(name, "")


@dataclass(frozen=True)
class Button:
    """What sends a form; ``action`` is its own one, or empty."""

    name: str
    value: str
    words: str
    action: str

    def answers_to(self, wanted: str) -> bool:
        return wanted in {self.name, self.value, self.words} or (bool(self.action) and self.action.endswith(wanted))


@dataclass
class Form:
    """A form, as one who has no JavaScript meets it."""

    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    boxes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    buttons: list[Button] = field(default_factory=list[Button])

    def button(self, wanted: str = "") -> Button:
        """The button of this name, value, words, or end of its action; by default the first."""
        return next(button for button in self.buttons if not wanted or button.answers_to(wanted))


class Markup(HTMLParser):
    """A parsed page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._words: list[str] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._words).split())

    def all(self, tag: str, **attributes: str) -> list[Element]:
        return [
            element
            for element in self.elements
            if element.tag == tag and all(element[name.rstrip("_")] == value for name, value in attributes.items())
        ]

    def rows(self) -> list[str]:
        """The words of each table row."""
        return [element.text for element in self.all("tr")]

    @property
    def forms(self) -> list[Form]:
        return [*self._forms()]

    def form(self, wanted: Callable[[Form], object]) -> Form:
        return next(form for form in self.forms if wanted(form))

    def _forms(self) -> Iterator[Form]:
        for element in self.all("form"):
            form = Form(element["action"], element["method"].lower() or "get")
            for control in self.elements:
                if element in control.parents or (element["id"] and control["form"] == element["id"]):
                    _add(form, control)
            yield form

    # --- the parser's own ---------------------------------------------------------------------------

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, parents=tuple(self._open))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}, parents=tuple(self._open)))

    def handle_endtag(self, tag: str) -> None:
        for at in range(len(self._open) - 1, -1, -1):
            if self._open[at].tag == tag:
                del self._open[at:]
                return

    def handle_data(self, data: str) -> None:
        if any(element.tag in UNSEEN for element in self._open):
            return
        self._words.append(data)
        for element in self._open:
            element.words.append(data)


def _add(form: Form, control: Element) -> None:
    name, value = control["name"], control["value"]
    kind = control["type"] or ("submit" if control.tag == "button" else "text")
    if kind == "submit" and control.tag in {"button", "input"}:
        form.buttons.append(Button(name, value, control.text or value, control["formaction"]))
    elif control.tag == "input" and kind in {"checkbox", "radio"}:
        form.boxes.append((name, value))
        if "checked" in control.attributes:
            form.fields.append((name, value))
    elif control.tag == "input" and name:
        form.fields.append((name, value))
    elif control.tag == "textarea":
        form.fields.append((name, control.text))
