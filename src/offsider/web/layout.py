"""The frame of every page: tabs, counters, servers, languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from offsider import __version__
from offsider.config.installation import Installation
from offsider.inspector.stats import Stats
from offsider.web import flash
from offsider.web.assets import own_assets
from offsider.web.extension_tabs import all_tabs, current_tab, names_of_assets
from offsider.web.page_request import THEMES, server_path

if TYPE_CHECKING:
    from offsider.web.page_request import PageRequest
    from offsider.web.results import Page

OK = 200
#: Path and title of each tab.
TABS = (
    ("/", "layout.dashboard"),
    ("/busy", "term.busy"),
    ("/queues", "term.queues"),
    ("/retries", "term.retries"),
    ("/scheduled", "term.scheduled"),
    ("/dead", "term.dead"),
    ("/metrics", "layout.metrics"),
    ("/slos", "layout.slos"),
    ("/errors", "term.errors"),
)
#: Tab that is shown if shards are configured.
SHARDS = ("/shards", "term.shards")
#: Name, title and path of each counter.
COUNTERS = (
    ("processed", "term.processed", "/metrics"),
    ("failed", "term.failed", "/errors"),
    ("busy", "term.busy", "/busy"),
    ("enqueued", "term.enqueued", "/queues"),
    ("retries", "term.retries", "/retries"),
    ("scheduled", "term.scheduled", "/scheduled"),
    ("dead", "term.dead", "/dead"),
)
#: Messages used by the scripts.
SCRIPT_TEXTS = (
    "common.confirm",
    "common.cancel",
    "layout.live",
    "layout.not_live",
    "layout.not_live_since",
    "layout.paused",
    "common.server_down",
    "layout.keyboard",
    "common.close",
    "time.seconds",
    "common.copied",
)


def layout_of(request: PageRequest, page: Page, stats: Stats | None) -> dict[str, Any]:
    """Return the data of the template ``layout.html``; without ``stats`` it has no counters."""
    assets = own_assets()
    tab = current_tab(request.installation, request.location)
    root = request.http.root
    # A response to POST cannot be reloaded by a link.
    shown_by_get = request.http.method != "POST"
    options = request.options
    several = len(options.servers) > 1
    return {
        "title": request.t(page.title),
        "subject": page.subject,
        "root": root,
        "server": request.server if several else "",
        "servers": [(name, root + server_path(options, name)) for name in options.servers] if several else [],
        "tabs": _tabs(request, page),
        "strip": [] if stats is None else [
            {"name": name, "title": request.t(title), "address": request.url(path), "value": getattr(stats, name)}
            for name, title, path in COUNTERS
        ],
        "locale": request.locale,
        "theme": request.theme,
        "themes": THEMES,
        "read_only": request.read_only,
        "who": request.who,
        "app_url": options.app_url,
        "version": __version__,
        "redis_url": request.installation.settings.redacted_url,
        "back": request.here() if shown_by_get else request.url("/"),
        "live": shown_by_get and page.status == OK and page.live,
        "flash": flash.message(request.http),
        "stylesheets": [*assets.of_kind(".css"), *names_of_assets(tab, ".css")],
        "scripts": [*assets.of_kind(".js"), *names_of_assets(tab, ".js")],
        "texts": {text: request.t(text) for text in SCRIPT_TEXTS},
    }  # fmt: skip


def counts(stats: Stats) -> Mapping[str, int]:
    """Return the counters by name, in display order."""
    return {name: getattr(stats, name) for name, _, _ in COUNTERS}


def tab_of(here: Installation, location: str) -> str:
    """Return the path of the tab that contains a page; empty if there is none."""
    fitting = [
        path for path, _ in _every_tab(here) if location == path or (path != "/" and location.startswith(f"{path}/"))
    ]
    return max(fitting, key=len, default="")


def _tabs(request: PageRequest, page: Page) -> list[dict[str, Any]]:
    current = page.tab or tab_of(request.installation, request.location)
    return [
        {"title": request.t(title), "address": request.url(path), "current": path == current}
        for path, title in _every_tab(request.installation)
    ]


def _every_tab(here: Installation) -> list[tuple[str, str]]:
    own = [*TABS, SHARDS] if here.config.shards else TABS
    return [*own, *((tab.path, tab.title) for tab in all_tabs(here))]
