"""What all pages have in common: tabs, counters, the servers, the languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider import __version__
from offsider.web.assets import own_assets
from offsider.web.said import kept
from offsider.web.tabs import current_tab, names_of_assets
from offsider.web.translation import Locale, locales
from offsider.web.visit import THEMES, server_path

if TYPE_CHECKING:
    from offsider.inspector.stats import Stats
    from offsider.web.answers import Page
    from offsider.web.visit import Visit

OK = 200
#: Path and title of each tab.
TABS = (
    ("/", "Dashboard"),
    ("/busy", "Busy"),
    ("/queues", "Queues"),
    ("/retries", "Retries"),
    ("/scheduled", "Scheduled"),
    ("/dead", "Dead"),
    ("/metrics", "Metrics"),
    ("/slos", "SLOs"),
    ("/errors", "Errors"),
    ("/switches", "Switches"),
)
#: The tab of configurations that have shards.
SHARDS = ("/shards", "Shards")
#: Name, title and path of each counter.
COUNTERS = (
    ("processed", "Processed", "/metrics"),
    ("failed", "Failed", "/errors"),
    ("busy", "Busy", "/busy"),
    ("enqueued", "Enqueued", "/queues"),
    ("retries", "Retries", "/retries"),
    ("scheduled", "Scheduled", "/scheduled"),
    ("dead", "Dead", "/dead"),
)
#: What our scripts say.
SCRIPT_TEXTS = (
    "Yes, do it",
    "No",
    "Live",
    "Paused",
    "Updated",
    "The server does not answer",
    "Keyboard",
    "Close",
    "{count} s",
)


@dataclass(frozen=True)
class Tab:
    """A link of the bar on top."""

    title: str
    address: str
    current: bool


@dataclass(frozen=True)
class Counter:
    """One of the counters on every page."""

    name: str
    title: str
    address: str
    value: int


@dataclass(frozen=True)
class Layout:
    """Around a page; see its template ``layout.html``."""

    title: str
    subject: str
    root: str
    server: str
    servers: Sequence[tuple[str, str]]
    tabs: Sequence[Tab]
    strip: Sequence[Counter]
    locale: Locale
    languages: Sequence[Locale]
    theme: str
    themes: Sequence[str]
    read_only: bool
    who: str
    app_url: str
    version: str
    redis_url: str
    back: str
    live: bool
    said: str
    stylesheets: Sequence[str]
    scripts: Sequence[str]
    texts: Mapping[str, str]


def layout_of(visit: Visit, page: Page, stats: Stats | None) -> Layout:
    """What stands around a page. Without ``stats`` the counters are left out."""
    assets = own_assets()
    tab = current_tab(visit.config, visit.location)
    root = visit.request.root
    # Nobody can go back to the answer of a form.
    shown_by_get = visit.request.method != "POST"
    several = len(visit.options.servers) > 1
    return Layout(
        title=visit.t(page.title),
        subject=page.subject,
        root=root,
        server=visit.server if several else "",
        servers=[(name, root + server_path(visit.options, name)) for name in visit.options.servers] if several else [],
        tabs=_tabs(visit, page),
        strip=[] if stats is None else [
            Counter(name, visit.t(title), visit.url(path), value)
            for (name, title, path), value in zip(COUNTERS, counts(stats).values(), strict=True)
        ],
        locale=visit.locale,
        languages=list(locales().values()),
        theme=visit.theme,
        themes=THEMES,
        read_only=visit.read_only,
        who=visit.who,
        app_url=visit.options.app_url,
        version=__version__,
        redis_url=visit.config.redis.redacted_url,
        back=visit.here() if shown_by_get else visit.url("/"),
        live=shown_by_get and page.status == OK,
        said=kept(visit.request),
        stylesheets=[*assets.of_kind(".css"), *names_of_assets(tab, ".css")],
        scripts=[*assets.of_kind(".js"), *names_of_assets(tab, ".js")],
        texts={text: visit.t(text) for text in SCRIPT_TEXTS},
    )  # fmt: skip


def counts(stats: Stats) -> Mapping[str, int]:
    """The counters by name, in their order on the page."""
    return {name: getattr(stats, name) for name, _, _ in COUNTERS}


def _tabs(visit: Visit, page: Page) -> list[Tab]:
    own = [*TABS, SHARDS] if visit.config.shards else TABS
    every: list[tuple[str, str]] = [*own, *((tab.path, tab.title) for tab in visit.config.web_tabs)]
    current = page.tab or _longest(visit.location, [path for path, _ in every])
    return [Tab(visit.t(title), visit.url(path), path == current) for path, title in every]


def _longest(location: str, paths: Sequence[str]) -> str:
    """The longest of the paths that the location is at or below."""
    fitting = [path for path in paths if location == path or (path != "/" and location.startswith(f"{path}/"))]
    return max(fitting, key=len, default="")
