"""The frame of every page: tabs, counters, servers, languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsider import __version__
from offsider.config.addresses import NOW
from offsider.config.installation import Installation
from offsider.screens.tabs import all_tabs, current_tab
from offsider.web import flash
from offsider.web.assets import own_assets
from offsider.web.extension_tabs import names_of_assets
from offsider.web.page_request import server_path

if TYPE_CHECKING:
    from offsider.web.page_request import PageRequest
    from offsider.web.results import Page

OK = 200
#: Path and title of the pages that are not screens.
TABS = ((NOW, "layout.now"),)
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
    "layout.rows",
    "common.close",
    "time.seconds",
    "common.copied",
    "jobs.newer",
)


def layout_of(request: PageRequest, page: Page) -> dict[str, Any]:
    """Return the data of the template ``layout.html``."""
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
        "locale": request.locale,
        "read_only": request.read_only,
        "who": request.who,
        "app_url": options.app_url,
        "version": __version__,
        "redis_url": request.installation.settings.redacted_url,
        "back": request.this_page() if shown_by_get else request.url("/"),
        "live": shown_by_get and page.status == OK and page.live,
        "flash": flash.message(request.http),
        "stylesheets": [*assets.of_kind(".css"), *names_of_assets(tab, ".css")],
        "scripts": [*assets.of_kind(".js"), *names_of_assets(tab, ".js")],
        "texts": {text: request.t(text) for text in SCRIPT_TEXTS},
    }  # fmt: skip


def tab_of(installation: Installation, location: str) -> str:
    """Return the path of the tab in the navigation bar that contains a page; the first one if none does."""
    tab = current_tab(installation, location)
    return NOW if tab is None else tab.within or tab.path


def _tabs(request: PageRequest, page: Page) -> list[dict[str, Any]]:
    current = page.tab or tab_of(request.installation, request.location)
    listed = [tab for tab in all_tabs(request.installation) if not tab.within]
    return [
        {"title": title, "address": request.url(path), "current": path == current}
        for path, title in (
            *((path, request.t(title)) for path, title in TABS),
            *((tab.path, tab.title) for tab in listed),
        )
    ]
