"""Stored text that tries to inject markup into pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

from bench.scoreboard import web_parts
from bench.scoreboard.furniture import Furniture, Words, furnish
from bench.scoreboard.ground import Ground
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server
from bench.scoreboard.visits import Asked, Reply, Visits
from tests.hostile import STRINGS
from tests.markup import Element, Markup

#: Elements that our own pages never have, or (script, style) only in one form.
NEVER = frozenset(["iframe", "object", "embed", "base", "marquee", "video", "math", "template", "xss", "foreignobject"])
ADDRESSES = ("href", "src", "action", "formaction", "data", "srcset", "poster", "xlink:href")
#: Characters of hostile strings only. Harmless strings have the same length, in JSON too, so pages cut both equally.
TAMED = str.maketrans({**dict.fromkeys("<>'`&{}%#/:;=?*[]|$\u2028\u2029\ud800", "x"), '"': "\b", "\\": "\b"})


@row(
    "R19",
    "100 hostile strings as class, arguments, queue, tag, error, backtrace, host, process, deploy and all other "
    "values that pages show; every page that shows them is parsed",
    bar="elements and attributes injected by data 0; addresses with an injected scheme 0; responses of 500 and above 0",
    heavy=True,
)
def injected(ground: Ground, report: Report) -> None:
    strings = STRINGS if ground.tier == "full" else [*STRINGS[::11], *STRINGS[-7:]]
    server = ground.server(persist=False)
    born, pages = list[str](), 0
    with (
        web_parts.overheard() as log,
        web_parts.no_time_budget(),
        closing(web_parts.asgi_visits(server, insecure=True)) as visits,
    ):
        for number, hostile in enumerate(strings):
            compared, found = compare(server, visits, hostile, number)
            if found:
                # A page whose minute ended between the visits differs too; injected markup differs again.
                compared, found = compare(server, visits, hostile, number)
            pages += compared
            born += found
    report.count(f"injected 0, got {len(born)}: {born[:5]}" if born else "born 0", not born)
    report.count(f"errors in the log: {log.kinds}" if log.errors else "errors in the log 0", not log.errors)
    report.figure("strings", len(strings))
    report.figure("pages", f"{pages:,}")


def compare(server: Server, visits: Visits, hostile: str, number: int) -> tuple[int, list[str]]:
    """Return the number of pages that show a text, and what it adds to them."""
    server.raw.flushall()
    plain = shapes(visits, furnish(server.raw, everywhere(tamed(hostile, number)), seed=number))
    server.raw.flushall()
    shown = shapes(visits, furnish(server.raw, everywhere(hostile), seed=number))
    return len(shown), [
        f"{route} with {hostile[:60]!r}: {what}"
        for (route, reply), (_, harmless) in zip(shown, plain, strict=True)
        for what in newborn(hostile, reply, harmless)
    ]


def everywhere(text: str) -> Words:
    return lambda _field: text


def tamed(text: str, number: int) -> str:
    """Return a harmless text of the same length."""
    return text.translate(TAMED) or f"plain{number}"


def shapes(visits: Visits, furniture: Furniture) -> list[tuple[str, Reply]]:
    """Return every page that shows stored data."""
    html = {"accept": "text/html"}
    return [
        (route.path, visits.send(Asked("GET", target, html)))
        for route in web_parts.routes()
        if route.method == "GET"
        for target in web_parts.targets_of(route, furniture)
    ]


def newborn(text: str, reply: Reply, harmless: Reply) -> Iterator[str]:
    """Return the elements of a page that the same page with harmless texts does not have."""
    if reply.status >= 500:
        yield str(reply.status)
    # A lone surrogate is no valid character: a job with one is shown as a malformed payload.
    same = text.isascii() or text.encode(errors="replace").decode() == text
    if same and reply.status != harmless.status:
        yield f"{reply.status} in place of {harmless.status}"
    if not reply.header("content-type").startswith("text/html") or reply.status != 200:
        return
    elements = Markup(reply.text).elements
    usual = Markup(harmless.text).elements
    known = {_shape(element) for element in usual}
    if same:
        yield from (f"<{each.tag} {each.attributes}>"[:300] for each in elements if _shape(each) not in known)
    if same and len(elements) != len(usual):
        yield f"{len(elements)} elements in place of {len(usual)}"
    for element in elements:
        yield from _forbidden(element)


def _shape(element: Element) -> tuple[str, ...]:
    return (element.tag, *sorted(element.attributes))


def _forbidden(element: Element) -> Iterator[str]:
    attributes = element.attributes
    if element.tag in NEVER or (element.tag == "script" and not attributes.get("src", "").startswith("/assets/")):
        yield f"<{element.tag} {attributes}>"[:300]
    for name, value in attributes.items():
        if name.startswith("on") or name in {"style", "srcdoc"}:
            yield f"<{element.tag} {name}={value[:80]!r}>"
        if name in ADDRESSES and _leads_away(value):
            yield f"<{element.tag} {name}={value[:80]!r}>"


def _leads_away(address: str) -> bool:
    if any(character < "!" for character in address):
        return True
    return bool(urlsplit(address).scheme) or address.startswith(("//", "/\\", "\\"))
