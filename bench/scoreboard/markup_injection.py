"""Stored text that tries to inject markup into pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

from bench.scoreboard import web_pages
from bench.scoreboard.environment import Environment
from bench.scoreboard.http_clients import HttpRequest, HttpResponse
from bench.scoreboard.row import Report, row
from bench.scoreboard.stored_data import Words, store_data
from bench.servers import Server
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
def injected(env: Environment, report: Report) -> None:
    strings = STRINGS if env.tier == "full" else [*STRINGS[::11], *STRINGS[-7:]]
    server = env.server(persist=False)
    born, page_count = list[str](), 0
    with web_pages.overheard() as log, web_pages.no_time_budget():
        for number, hostile in enumerate(strings):
            compared, found = compare(server, hostile, number)
            if found:
                # A page whose minute ended between the pages differs too; injected markup differs again.
                compared, found = compare(server, hostile, number)
            page_count += compared
            born += found
    report.nothing("injected", born)
    report.nothing("errors in the log", log.kinds)
    report.figure("strings", len(strings))
    report.figure("pages", f"{page_count:,}")


def compare(server: Server, hostile: str, number: int) -> tuple[int, list[str]]:
    """Return the number of pages that show a text, and what it adds to them."""
    plain = shapes(server, everywhere(tamed(hostile, number)), number)
    shown = shapes(server, everywhere(hostile), number)
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


def shapes(server: Server, words: Words, seed: int) -> list[tuple[str, HttpResponse]]:
    """Return every page that shows stored data; from an application without values of earlier data in its caches."""
    server.raw.flushall()
    stored, html = store_data(server.raw, words, seed=seed), {"accept": "text/html"}
    with closing(web_pages.asgi_pages(server, insecure=True)) as pages:
        return [
            (route.path, pages.send(HttpRequest("GET", target, html)))
            for route in web_pages.routes()
            if route.method == "GET"
            for target in web_pages.targets_of(route, stored)
        ]


def newborn(text: str, reply: HttpResponse, harmless: HttpResponse) -> Iterator[str]:
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
