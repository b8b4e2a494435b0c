"""``offsider show`` and ``offsider do``: the screens in the terminal, and their actions.

A command with the name of a screen, such as ``offsider limiters``, is a short form of both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any
from urllib.parse import parse_qsl

import click

from offsider.cli.command import (
    CONNECTION,
    JSON,
    YES,
    ConnectionOptions,
    asks,
    command,
    for_each,
    group,
    myself,
    output,
    report_failed_servers,
    require,
    server,
)
from offsider.cli.screen_text import cell_text, chart_lines, table_lines
from offsider.cli.text import aligned, confirm, plain, say
from offsider.config.installation import Installation
from offsider.config.web_tab import (
    WebAction,
    WebButton,
    WebButtons,
    WebCount,
    WebDone,
    WebForm,
    WebNote,
    WebPage,
    WebPager,
    WebScan,
    WebTab,
    WebTable,
)
from offsider.core.errors import OffsiderError, UnknownSubject
from offsider.core.segments import segment
from offsider.core.suggestions import suggest
from offsider.core.wording import listed
from offsider.ext.batches import web as batch_screen
from offsider.ext.limiters import web as limiter_screen
from offsider.ext.periodic import web as periodic_screen
from offsider.ext.results import web as result_screen
from offsider.ext.unique import web as lock_screen
from offsider.screens import audit, job as job_screen, plain as values
from offsider.screens.errors import BadRequest
from offsider.screens.request import PAGE, SELECTED, ScreenRequest
from offsider.screens.tabs import OWN, action_of, find

_EXTENSIONS = (batch_screen, limiter_screen, lock_screen, periodic_screen, result_screen)
#: The screens that need no application, by name.
_BUILT_IN = {tab.name: tab for tab in (*OWN, job_screen.TAB, *(extension.make_tab() for extension in _EXTENSIONS))}
_MAX_LINE = 500
#: The page of a screen that counts what its actions without a subject change.
_COUNT = "/count"
_OPTIONS = (
    *CONNECTION,
    server("One server. Default: all."),
    require("Application. Default: worker.require."),
)
_FIELDS = click.argument("fields", metavar="[FIELD=VALUE]...", nargs=-1)


@dataclass(frozen=True)
class TerminalRequest(ScreenRequest):
    """The request of a command.

    Attributes:
        installation: the server.
        fields: fields by name.
        who: the user.
        parts: values of the placeholders in the path.
        keys: keys of the selected rows.
    """

    installation: Installation
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    who: str = ""
    parts: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: Sequence[str] = ()

    @property
    def actor(self) -> str:
        return self.who

    def all(self, name: str) -> Sequence[str]:
        return self.keys if name == SELECTED and self.keys else super().all(name)

    def sent(self, name: str) -> str:
        return self.fields.get(name, "")


@command(
    click.argument("screen", required=False, default=""),
    click.argument("path", required=False, default=""),
    _FIELDS,
    *_OPTIONS,
    JSON,
)
def show(connection: ConnectionOptions, screen: str, path: str, fields: Sequence[str], *, as_json: bool) -> int:
    """Show a screen of the web UI.

    For example: show batches, show batches BID, show batches tag=import.

    Without a screen it lists them. A list has 25 rows: show limiters page=2 has the next ones.
    """
    if "=" in path:
        path, fields = "", (path, *fields)
    return show_screen(connection, screen, path, _pairs(fields), as_json=as_json)


@command(click.argument("screen"), click.argument("path", metavar="SUBJECT/ACTION"), _FIELDS, *_OPTIONS, YES)
def do(connection: ConnectionOptions, screen: str, path: str, fields: Sequence[str], *, yes: bool) -> int:
    """Do an action of a screen.

    For example: do batches BID/invalidate, do limiters window/stripe/reset.
    """
    return do_actions(connection, screen, [path], _pairs(fields), yes=yes)


# ------------------------------------------------------------------------------- names of screens


def named(name: str) -> click.Group:
    """Make the command of a built-in screen, with a subcommand for each action on a subject."""
    tab = _BUILT_IN[name]
    parts = max(tab.routes, key=len).lstrip("/").split("/")

    @group(*_OPTIONS, JSON)
    def screen(connection: ConnectionOptions, *, as_json: bool) -> int:
        return show_screen(connection, name, "", {}, as_json=as_json)

    @command(_FIELDS, *_OPTIONS, JSON, within=screen, name="list", what="List them: list page=2.")
    def some(connection: ConnectionOptions, fields: Sequence[str], *, as_json: bool) -> int:
        return show_screen(connection, name, "", _pairs(fields), as_json=as_json)

    @command(click.argument("path", metavar="SUBJECT"), *_OPTIONS, JSON, within=screen, name="show", what="Show one.")
    def one(connection: ConnectionOptions, path: str, *, as_json: bool) -> int:
        return show_screen(connection, name, _path(path, len(parts)), {}, as_json=as_json)

    for pattern in tab.actions:
        *subject, action = pattern.lstrip("/").split("/")
        if subject and all(part.startswith("{") for part in subject):
            metavar = f"{'/'.join(part.strip('{}').upper() for part in subject)}..."
            _subcommand(screen, name, action, metavar, len(subject))
    screen.help = f"Show and change {tab.title.lower()}. Without a subcommand it lists the first {PAGE}."
    return screen


def _subcommand(within: click.Group, screen: str, action: str, metavar: str, parts: int) -> None:
    completed = complete(screen) if parts == 1 else None
    argument = click.argument("subjects", metavar=metavar, nargs=-1, required=True, shell_complete=completed)

    @command(argument, *_OPTIONS, YES, within=within, name=action, what=f"{action.capitalize()} these.")
    def act(connection: ConnectionOptions, subjects: Sequence[str], *, yes: bool) -> int:
        return do_actions(
            connection, screen, [f"{_path(subject, parts)}/{action}" for subject in subjects], {}, yes=yes
        )


def complete(screen: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return the shell completion of the names on a screen; there is none while the server is unreachable."""

    def names(context: click.Context, _: click.Parameter, typed: str) -> list[str]:
        given = context.parent.params if context.parent else {}
        connection = ConnectionOptions(given.get("config"), given.get("environment"), given.get("server"))
        try:
            page = _page(_BUILT_IN[screen], "", {"name": typed}, connection.installation())
        except OffsiderError:
            return []
        return [name for name in _names(page) if name.startswith(typed)]

    return names


def _path(subject: str, parts: int) -> str:
    """Return the path of a typed subject: its last part may contain any character, such as that of a key."""
    return "/".join(map(segment, subject.split("/", parts - 1)))


# ------------------------------------------------------------------------------- pages


def show_screen(
    connection: ConnectionOptions,
    screen: str,
    path: str,
    fields: Mapping[str, str],
    *,
    as_json: bool,
    most: int | None = None,
) -> int:
    """Print a page of a screen. With ``most``, stop after this many rows, and return 1 if nothing was found."""
    tabs, start = _screens(connection)
    if not screen:
        titles = {name: tab.title for name, tab in tabs.items()}
        output(titles, aligned([("SCREEN", "TITLE"), *titles.items()]), as_json=as_json)
        return 0
    tab = _screen(tabs, screen)
    ask = partial(_page, tab, path, fields, most=most)
    pages, away = connection.each_server(start, ask)
    found = {server: page for server, page in pages.items() if page is not None}
    if not found:
        near = suggest(path, _names(_page(tab, "", {}, start)))
        raise UnknownSubject(f"{screen}: there is no {path!r}{near}: see offsider show {screen}")
    lines = (line for server, page in found.items() for line in _lines(tab, page, server if len(pages) > 1 else ""))
    output({server: values.page(page) for server, page in found.items()}, lines, as_json=as_json)
    is_empty = most is not None and not any(map(_is_found, found.values()))
    return report_failed_servers(away, f"cannot read {screen} of") or int(is_empty)


def _is_found(page: WebPage) -> bool:
    return any(block.rows if isinstance(block, WebTable) else isinstance(block, WebNote) for block in page.blocks)


def table_of(screen: str, server: Installation) -> str:
    """Return the first page of a built-in screen as text."""
    page = _page(_BUILT_IN[screen], "", {}, server)
    return "" if page is None else "\n".join(_lines(_BUILT_IN[screen], page, ""))


def _page(
    tab: WebTab, path: str, fields: Mapping[str, str], installation: Installation, *, most: int | None = None
) -> WebPage | None:
    """Return the page at a path below the screen; None if there is none.

    A list in several steps is read to its end; with ``most``, steps and pages are read for this many rows.
    """
    found = find(tab.routes, f"/{path}" if path else "")
    if found is None:
        return None
    request = TerminalRequest(installation, fields, parts=found[2])
    page = found[1](request)
    while page is not None and (more := _next_step(tab, path, page)):
        page = found[1](replace(request, fields=more))
    kinds = WebScan if most is None else WebPager | WebScan
    tables = [(at, each) for at, each in enumerate(page.blocks) if isinstance(each, WebTable)] if page else []
    at, table = next(((at, each) for at, each in tables if isinstance(each.pager, kinds)), (0, None))
    if page is None or table is None:
        return page
    numbers = count(2)
    while (most is None or len(table.rows) < most) and (more := _next_rows(table.pager, next(numbers))):
        step = found[1](replace(request, fields={**fields, **more}))
        part = next((each for each in step.blocks if isinstance(each, WebTable) and each.pager), None) if step else None
        if part is None:
            break
        table = _joined(table, part)
    if most is not None:  # the cursor would leave out the rows that are cut off here
        pager = table.pager if isinstance(table.pager, WebPager) and table.pager.total > most else None
        table = replace(table, rows=table.rows[:most], keys=table.keys[:most], pager=pager)
    return replace(page, blocks=[*page.blocks[:at], table, *page.blocks[at + 1 :]])


def _next_step(tab: WebTab, path: str, page: WebPage) -> dict[str, str]:
    """Return the fields of the next step of a count, if this is its page."""
    more = next((block.more for block in page.blocks if isinstance(block, WebCount)), "")
    target, _, query = more.partition("?")
    return dict(parse_qsl(query)) if target == f"{tab.path}/{path}" else {}


def _names(page: WebPage | None) -> list[str]:
    """Return the first cells of all tables."""
    tables = [block for block in page.blocks if isinstance(block, WebTable)] if page else []
    return [cell_text(values.cell(row[0])) for table in tables for row in table.rows]


def _next_rows(pager: WebPager | WebScan | None, number: int) -> dict[str, str]:
    """Return the fields of the next step or page of a table; none at its end."""
    if isinstance(pager, WebPager):
        return {"page": str(number)} if (number - 1) * PAGE < pager.total else {}
    return {"cursor": pager.cursor} if pager and pager.cursor else {}


def _joined(first: Any, more: Any) -> Any:
    """Join two parts of a table, which may have other columns; its key, or else its first cell identifies a row."""
    columns, keys = [*dict.fromkeys((*first.columns, *more.columns))], [*first.keys, *more.keys]
    named = (dict(zip(part.columns, row, strict=True)) for part in (first, more) for row in part.rows)
    rows = [[row.get(column, "") for column in columns] for row in named]
    found = dict(zip(keys or [row[0] for row in rows], rows, strict=True))
    return replace(more, columns=columns, rows=[*found.values()], keys=[*found] if keys else [])


def _lines(tab: WebTab, page: WebPage, server: str) -> Iterator[str]:
    title = f"{page.title} {page.subject}" if page.subject else page.title
    yield f"{title} on {server}" if server else title
    for block in page.blocks:
        shown = values.block(block)
        match shown["is"]:
            case "table":
                yield from [] if shown["title"] == page.title else ["", shown["title"]]
                yield from table_lines(shown)
                if isinstance(block, WebTable) and isinstance(block.pager, WebPager) and block.pager.total > PAGE:
                    yield f"{block.pager.total:,} in {-(-block.pager.total // PAGE)} pages: page=2"
            case "facts" | "count":
                yield from aligned([(fact["name"], cell_text(fact["cell"])) for fact in shown["facts"]])
            case "note":
                yield shown["text"]
            case "text":
                yield from ("", shown["title"]) if shown["title"] else ()
                yield from (plain(line, _MAX_LINE) for line in shown["text"].splitlines())
            case "chart" | "heat":
                yield from chart_lines(shown)
            case _:
                for button in shown["buttons"]:
                    of = max((tab, *OWN), key=lambda one: len(one.path) * button["path"].startswith(f"{one.path}/"))
                    yield f"{button['text']}: offsider do {of.name} {button['path'].removeprefix(of.path)[1:]}"


# ------------------------------------------------------------------------------- actions


def do_actions(
    connection: ConnectionOptions,
    screen: str,
    paths: Sequence[str],
    fields: Mapping[str, str],
    *,
    yes: bool,
    as_json: bool = False,
) -> int:
    """Do the action at each path, even if another one failed, and return the exit code."""
    tabs, start = _screens(connection)
    tab, ask_each = _screen(tabs, screen), partial(connection.each_server, start)
    return for_each(paths, lambda path: _act(tab, path, fields, ask_each, yes=yes, as_json=as_json))


def _act(
    tab: WebTab, path: str, fields: Mapping[str, str], ask_each: Callable[..., Any], *, yes: bool, as_json: bool
) -> int:
    """Do an action on each server that has its subject, after the question of its button.

    An action on all jobs that match is done to those that the screen has counted, in steps.
    """
    found = find(tab.actions, f"/{path}")
    if found is None:
        known = [pattern.lstrip("/") for pattern in tab.actions]
        raise UnknownSubject(f"{tab.name}: there is no action {path!r}{suggest(path, known)}: {', '.join(known)}")
    pattern, _, parts = found
    taken = tab.fields.get(pattern, ())
    if unknown := next((name for name in fields if name not in taken), ""):
        raise BadRequest("error.unknown_field", name=unknown, known=", ".join(taken) or "-")
    subject = path.rpartition("/")[0]
    of_counted = not subject and _COUNT in tab.routes
    pages, _ = ask_each(partial(_page, tab, _COUNT[1:], fields) if of_counted else partial(_page, tab, subject, {}))
    offered = {name: _button(tab, page, found, fields) for name, page in pages.items() if page is not None}
    buttons = {name: button for name, button in offered.items() if button is not None}
    _confirm(subject, [*(buttons if of_counted else offered)], buttons.values(), yes=yes)

    def act(server: Installation) -> WebDone | UnknownSubject:
        if of_counted and server.name not in buttons:
            return UnknownSubject("No job found.")
        button = buttons.get(server.name)
        sent = {**({} if button is None else button.fields), **fields}
        try:
            return perform(tab, found, TerminalRequest(server, sent, myself(), parts), progress=asks() and not as_json)
        except UnknownSubject as error:
            return error

    answers, away = ask_each(act)
    done = {name: answer for name, answer in answers.items() if isinstance(answer, WebDone)}
    if not done and not away:
        raise next(iter(answers.values()))
    by_text: dict[str, list[str]] = {}
    for name, answer in done.items():
        by_text.setdefault(answer.text, []).append(name)
    lines = [f"{text} ({', '.join(on)})" if len(answers) > 1 else text for text, on in by_text.items()]
    output({name: answer.data for name, answer in done.items()}, lines, as_json=as_json)
    return report_failed_servers(away, f"cannot change {tab.name} of")


def _confirm(subject: str, having: Sequence[str], buttons: Collection[WebButton], *, yes: bool) -> None:
    """Ask the questions of the buttons. Raises click.UsageError for a danger on several servers, or click.Abort."""
    danger = any(button.danger for button in buttons)
    if danger and len(having) > 1:
        what = f"{subject} is" if subject else "there are such jobs"
        raise click.UsageError(f"{what} on {listed(having)}: choose one of them with --server")
    questions = dict.fromkeys(button.confirm for button in buttons if button.confirm)
    if questions and not yes and (danger or asks()):
        confirm(" ".join(questions))


def perform(
    tab: WebTab, found: tuple[str, WebAction, Mapping[str, str]], request: TerminalRequest, *, progress: bool = False
) -> WebDone:
    """Do the action of a screen that `find` has found, all steps of it, and record it.

    Raises:
        UnknownSubject: its subject does not exist.
        OffsiderError: it failed.
    """
    pattern, action, parts = found
    server, name, subject = request.installation, action_of(tab, pattern), " ".join(parts.values())
    try:
        while True:
            result = action(request)
            done = result if isinstance(result, WebDone) else WebDone(result)
            if audit.is_last(done.data):
                break
            say(*[done.text] if progress else [], err=True)
    except UnknownSubject:
        raise
    except OffsiderError as error:
        sent = audit.filter_of(request.fields.items())
        audit.failed(server, name, str(error), who=request.who, subject=subject, filter=sent)
        raise
    audit.result(server, name, done.text, done.data, request.fields.items(), who=request.who, subject=subject)
    return done


def _button(tab: WebTab, page: WebPage, action: object, fields: Mapping[str, str]) -> WebButton | None:
    """Return the button of an action on a page, with its question; with the field ``most`` that for the first jobs."""
    found: list[WebButton] = []
    for block in page.blocks:
        if isinstance(block, WebButtons | WebForm | WebCount):
            question = block.confirm if isinstance(block, WebForm) else ""
            buttons = (replace(each, confirm=each.confirm or question) for each in block.buttons)
            found += (each for each in buttons if find(tab.actions, each.path.removeprefix(tab.path)) == action)
    return max(found, key=lambda button: ("most" in button.fields) == ("most" in fields), default=None)


def _screens(connection: ConnectionOptions) -> tuple[Mapping[str, WebTab], Installation]:
    start = connection.installation_with_extensions()
    return _BUILT_IN | {tab.name: tab for tab in start.config.web_tabs}, start


def _screen(tabs: Mapping[str, WebTab], name: str) -> WebTab:
    found = tabs.get(name) or next((tab for tab in tabs.values() if tab.path == f"/{name}"), None)
    if found is None:
        raise UnknownSubject(f"there is no screen {name!r}{suggest(name, tabs)}: see offsider show")
    return found


def _pairs(fields: Sequence[str]) -> dict[str, str]:
    """Return fields by name. Raises click.UsageError."""
    wrong = next((each for each in fields if "=" not in each), None)
    if wrong is not None:
        raise click.UsageError(f"expected FIELD=VALUE, got {wrong!r}")
    return dict(each.split("=", 1) for each in fields)


batches, limiters, locks, processes = map(named, ("batches", "limiters", "locks", "processes"))
