"""The configuration of one worker or client: settings, capsules, and extension points.

1. `Config.load` reads the file, the environment and the command line; ``Config()`` has only the defaults.
2. The application's ``configure(config)`` changes settings and registers middleware, events, handlers, services.
3. `freeze` validates the configuration and makes it read-only: threads may then read it without a lock.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, overload, runtime_checkable

from offsider.config.application import Application, application, django_project
from offsider.config.capsule import Capsule
from offsider.config.containers import Freezable, Listing, Shared
from offsider.config.hooks import Encrypts, OutboxWriter, PushEffects, PushGuard
from offsider.config.loading import (
    Assignment,
    Document,
    current_folder,
    find,
    from_command_line,
    from_document,
    from_environ,
    from_platform,
    from_tree,
    misspelled_variables,
)
from offsider.config.routing import MAIN
from offsider.config.settings import (
    CAPSULES,
    PERIODIC,
    SERVERS,
    SHARDS,
    AlertsSection,
    CapsuleSection,
    ClientSection,
    JobDefaults,
    LogSection,
    RedisSection,
    RoutingSection,
    Section,
    ShardSection,
    SloSection,
    WorkerSection,
)
from offsider.core.clock import SYSTEM_CLOCK, Clock
from offsider.core.error_text import describe
from offsider.core.errors import ConfigurationError
from offsider.core.job_id import JobResults
from offsider.core.payload import JobPayload
from offsider.core.suggestions import suggest
from offsider.logs.setup import logger
from offsider.logs.structured import loggable
from offsider.runtime.events import Events
from offsider.runtime.middleware import (
    ClientChain,
    MiddlewareChain,
    Push,
    ServerChain,
    ServerMiddleware,
    check_middleware,
)
from offsider.runtime.service import Service

if TYPE_CHECKING:
    from offsider.runtime.events import JobPlaced, JobRemoved
    from offsider.storage.effects import Effect
    from offsider.storage.slots import Rate

DEFAULT = "default"
#: Keys of an error handler's context: what the worker did when the error was raised, and what happens to the failed
#: job next.
DOING = "context"
NEXT = "next"
_SERVER_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class LimitsInCode(Protocol):
    """The interface of ``config.limits``; `offsider.ext.concurrency_limits` implements it."""

    def wants_threads(self, jobs: Iterable[Any]) -> bool:
        """Whether limits of these jobs depend on the number of threads in the fleet."""
        ...

    def limit_of(self, job: Any, config: Config, fleet_threads: int) -> int:
        """Return the maximum concurrent runs of a job: 0 for no limit, -1 if nothing may run."""
        ...

    def rate_of(self, job: Any) -> Rate:
        """Return the maximum starts of a job in a time."""
        ...


ErrorHandler: TypeAlias = Callable[[BaseException, Mapping[str, object]], None]
DeathHandler: TypeAlias = Callable[[JobPayload, "BaseException | None"], None]
#: Examines one server, an `Installation`, and returns findings; see `offsider.inspector.finding`.
FindingCheck: TypeAlias = Callable[[Any], Iterable[Any]]
#: Reads one server, an `Installation`, and returns metric families; see `offsider.prometheus`.
MetricFamilies: TypeAlias = Callable[[Any], Iterable[Any]]
#: See `Hooks.removal_effects`.
RemovalEffects: TypeAlias = "Callable[[JobRemoved], Sequence[Effect]]"
#: See `Hooks.move_effects`.
MoveEffects: TypeAlias = "Callable[[JobPlaced], Sequence[Effect]]"
MetricLabels: TypeAlias = Callable[[str, str], Mapping[str, str]]
Handler = TypeVar("Handler", bound=Callable[..., Any])


class Hooks(Freezable):
    """The part of a configuration that only Python code can set; `Config` adds the settings.

    An `Installation` is typed with Any here, because its module imports this one.

    Attributes:
        client_middleware, server_middleware: the chains that capsules copy.
        admissions: decide in a worker whether a job runs, before its start is logged and before all middleware.
        error_handlers: called with an error and its context; the first one logs.
        death_handlers: called with the payload and the error of a job that will not be retried.
        services: functions that create a `Service` from the configuration; the worker starts and stops it.
        reloader: middleware outside of `server_middleware`, in workers only, for example for database connections.
        after_commit: takes a function and calls it after the commit of the current database transaction; pushes use it.
        outbox: writes pushes as rows of the application's database; see `offsider.ext.outbox`.
        events: the handlers of events; see `on`.
        info_fields: return fields of the process info in Redis; called at each heartbeat.
        metric_labels: return labels of the metrics of jobs; called with a job's class and queue, once per heartbeat.
            Each value of a label multiplies the number of time series, so a label should have few values.
        metric_families: return the `offsider.prometheus.Family` objects of a scrape; called with the scraped
            `Installation`. Must be fast.
        findings: return an `offsider.inspector.finding.Finding` for each problem; called each ten seconds with the
            `Installation`. Must change nothing, and send few commands.
        doctor_checks: the same, only for ``offsider doctor``: may take a second.
        web_tabs: each an `offsider.web.WebTab`; see `add_web_tab`.
        queue_sources: return a `jobs.routes.RoutedQueue` for each queue that no declaration names, such as those of
            Django's tasks.
        queue_resolver: returns the queue of a push, or None to keep it; runs before client middleware.
        push_effects: scripts that run in the script that stores a job; see `offsider.config.hooks`.
        removal_effects: called for each job that an operator is about to delete, kill or quarantine, or a worker to
            remove without a run; return effects (`offsider.storage.effects.Effect`), which run in the script that
            removes the job. For a debounced job that another push has replaced, they run after it.
        move_effects: the same for each job that an operator is about to move to its queue, back from quarantine, or to
            another time.
        push_guard: stores jobs with a script that may refuse them; called after client middleware.
        results: returns the object that reads the states and results of the jobs of a server; see `JobId`.
        encryption: encrypts arguments of jobs; see `offsider.ext.encryption`.
        limits: evaluates the concurrency and rate limits in code.
        clock, random: replaceable in tests.
    """

    reloader: ServerMiddleware | None
    after_commit: Callable[[Callable[[], None]], None] | None
    outbox: OutboxWriter | None
    queue_resolver: Callable[[Push], str | None] | None
    push_guard: PushGuard | None
    results: Callable[[Any], JobResults] | None
    encryption: Encrypts | None
    limits: LimitsInCode | None
    clock: Clock
    random: Random

    def __init__(self) -> None:
        self._open = True
        self._job_options: dict[str, Callable[[object], object]] = {}
        self.client_middleware: ClientChain = MiddlewareChain(what="config.client_middleware")
        self.server_middleware: ServerChain = MiddlewareChain(what="config.server_middleware")
        self.events = Events(self.handle_error)
        self.error_handlers: Listing[ErrorHandler] = Listing("config.error_handlers")
        self.death_handlers: Listing[DeathHandler] = Listing("config.death_handlers")
        self.services: Listing[Callable[[Config], Service]] = Listing("config.services")
        self.info_fields: Listing[Callable[[], Mapping[str, Any]]] = Listing("config.info_fields")
        self.push_effects: Listing[PushEffects] = Listing("config.push_effects")
        self.removal_effects: Listing[RemovalEffects] = Listing("config.removal_effects")
        self.move_effects: Listing[MoveEffects] = Listing("config.move_effects")
        self.admissions: ServerChain = MiddlewareChain(what="config.admissions")
        self.web_tabs: Listing[Any] = Listing("config.web_tabs")
        self.metric_labels: Listing[MetricLabels] = Listing("config.metric_labels")
        self.metric_families: Listing[MetricFamilies] = Listing("config.metric_families")
        self.findings: Listing[FindingCheck] = Listing("config.findings")
        self.doctor_checks: Listing[FindingCheck] = Listing("config.doctor_checks")
        self.queue_sources: Listing[Callable[[Config], Iterable[Any]]] = Listing("config.queue_sources")
        self.reloader = None
        self.after_commit = None
        self.outbox = None
        self.queue_resolver = None
        self.push_guard = None
        self.results = None
        self.encryption = None
        self.limits = None
        self.clock = SYSTEM_CLOCK
        self.random = Random()

    @overload
    def on(self, name: str, handler: None = None) -> Callable[[Handler], Handler]: ...
    @overload
    def on(self, name: str, handler: Handler) -> Handler: ...
    def on(self, name: str, handler: Callable[..., Any] | None = None) -> Any:
        """Listen to an event; see `Events.on`."""
        return self.events.on(name, handler)

    def add_web_tab(self, tab: Any) -> None:
        """Add an `offsider.web.WebTab` to the web UI."""
        if any(other.name == tab.name for other in self.web_tabs):
            raise ConfigurationError(f"there is a web tab {tab.name!r} already")
        self.web_tabs.append(tab)

    def add_job_option(self, name: str, check: Callable[[object], object]) -> None:
        """Add a job option, set by ``extra={name: …}``; ``check`` raises ValueError for invalid values."""
        self.check_open("config.job_options")
        if name in self._job_options:
            raise ConfigurationError(f"there is a job option {name!r} already")
        self._job_options[name] = check

    @property
    def job_options(self) -> Mapping[str, Callable[[object], object]]:
        """The job options of extensions, with their checks."""
        return MappingProxyType(self._job_options)

    def handle_error(self, error: BaseException, context: Mapping[str, object]) -> None:
        """Call every error handler. Never raises: an error of a handler is logged."""
        for handler in self.error_handlers:
            try:
                handler(error, context)
            except (Exception, SystemExit):  # noqa: BLE001  # error handling itself must not fail
                with suppress(Exception):  # the log may have caused the error
                    logger.exception("an error handler failed while it reported %s", describe(error))

    def call_death_handlers(self, payload: JobPayload, error: BaseException | None) -> None:
        """Call every death handler for a job that will not be retried. An error of a handler is reported."""
        for handler in self.death_handlers:
            try:
                handler(payload, error)
            except KeyboardInterrupt:  # Ctrl-C in a console that kills jobs
                raise
            except BaseException as own:  # noqa: BLE001 - a broken handler must not keep the others from being called
                self.handle_error(own, {"context": "calling a death handler", "job": payload})

    @property
    def frozen(self) -> bool:
        """Whether the configuration refuses changes: `freeze` was called."""
        return self._frozen

    def freeze(self) -> None:
        """Refuse further changes."""
        for part in self._parts():
            part.freeze()
        super().freeze()

    def thaw(self) -> None:
        """Accept changes again."""
        for part in self._parts():
            part.thaw()
        super().thaw()

    def _parts(self) -> Iterator[Freezable]:
        return (part for part in vars(self).values() if isinstance(part, Freezable))

    def __setattr__(self, name: str, value: object) -> None:
        if not self.__dict__.get("_open", True):
            self._check_assignment(name, value)
        object.__setattr__(self, name, value)

    def _check_assignment(self, name: str, value: object) -> None:
        self.check_open(f"config.{name}")
        if name not in ASSIGNABLE and not name.startswith("_"):
            hint = suggest(name, ASSIGNABLE)
            raise ConfigurationError(f"config.{name} cannot be assigned{hint}; assignable are {', '.join(ASSIGNABLE)}")
        if name == "reloader" and value is not None:
            check_middleware(value, "config.reloader")


#: The attributes that code may assign.
ASSIGNABLE = sorted((*Hooks.__annotations__, "fetcher"))


@runtime_checkable
class Extension(Protocol):
    """An extension, installed by ``config.use(extension)``.

    ``install`` may use all extension points of the configuration: client and server middleware, events, services, error
    and death handlers, a fetcher, a queue resolver, job options, fields of the process info, web tabs and others.
    """

    @property
    def name(self) -> str:
        """Unique among the installed extensions."""
        ...

    def install(self, config: Config) -> None:
        """Register the extension's parts. Called once, by ``config.use(extension)``."""
        ...


class Config(Hooks):
    """The configuration of a client or a worker.

    Attributes:
        redis, worker, client, routing, slo, alerts, log: sections of settings; each assignment is checked. ``redis`` is
            the server that this process uses: its shard's server, if the worker serves a shard.
        servers: name to section of every server for pushes; ``main`` is the server of the section ``redis``.
        server: the name of the server that this process works for.
        shards: name to section of every shard.
        jobs: default options of all jobs; the options of a job override them.
        capsules: name to `Capsule`; ``default`` always exists and has the settings of the section ``worker``.
        periodic: the tables ``[periodic.NAME]`` of the file, by name, for the extension of periodic jobs.
        shared: objects that users of this configuration share; see `Installation` for its pools.
        file: the configuration file that was read, if any.
        application: the web application that configures it: a Django project or a Flask application; None for none.
        configured_by: the functions that `configure_client` has called with it.
        warnings: problems that are not errors; the command line logs them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.error_handlers.append(partial(_log_error, self))
        self._fetcher: str | type | None = None
        self._extensions: dict[str, Extension] = {}
        self.shared = Shared()
        self.file: Path | None = None
        self.application: Application | None = None
        self.configured_by: list[Callable[[Config], object]] = []
        self.warnings: list[str] = []
        self.redis = RedisSection()
        self.server = MAIN
        self._servers: dict[str, RedisSection] = {MAIN: self.redis}
        self._shards: dict[str, ShardSection] = {}
        self.worker = WorkerSection()
        self.client = ClientSection()
        self.routing = RoutingSection()
        self.slo = SloSection()
        self.alerts = AlertsSection()
        self.log = LogSection()
        self.jobs = JobDefaults()
        self.periodic: dict[str, dict[str, object]] = {}
        self._capsules = {DEFAULT: self._make_capsule(DEFAULT, self.worker)}
        self._open = False

    @classmethod
    def load(
        cls,
        path: Path | str | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        beside: Path | None = None,
        overrides: Mapping[str, object] | None = None,
        for_worker: bool = False,
    ) -> Config:
        """Load the configuration. Precedence: command line, environment, web application, file, defaults.

        Args:
            path: the file; by default the first of ``offsider.toml``, ``pyproject.toml`` with ``[tool.offsider]`` and
                ``config/sidekiq.yml`` in ``cwd``, then in ``beside``.
            environ: the environment; default: the process's environment.
            cwd: the current folder; default: the process's current folder.
            beside: the folder of the application.
            overrides: settings of the command line, by ``section.key`` or key.
            for_worker: whether a worker uses the configuration, which then serves the shard in
                ``OFFSIDER_WORKER_SHARD``.

        Raises:
            ConfigurationError: a file or a value is invalid; the message names the file, the key and the expected type.
        """
        folders = [folder for folder in (cwd or current_folder(), beside) if folder is not None]
        environ = os.environ if environ is None else environ
        given = [*from_command_line(overrides or {})]
        app = application() or django_project(environ)
        if path is None and app is not None and app.replaces_file:
            document: Document | None = Document(Path(app.origin), app.settings)
        else:
            document = find(None if path is None else Path(path), folders)
        config = cls()
        config._assign(from_platform(environ))
        if document is not None:
            vars(config)["file"] = document.path
            config.warnings.extend(document.notes)
            config._assign(from_document(document, given, environ))
        if app is not None:
            vars(config)["application"] = app
            config._assign([] if app.replaces_file else from_tree(app.settings, app.origin, environ))
        config.warnings.extend(misspelled_variables(environ))
        stronger = [*from_environ(environ, for_worker=for_worker), *given]
        config._assign(stronger)
        _check_servers(config)
        if config.worker.shard:
            _serve_shard(config, config.worker.shard)
            config._assign(stronger)
        return config

    def adopt(self, app: Application) -> None:
        """Apply the settings and the code of a web application; the environment remains stronger.

        Raises:
            ConfigurationError: a setting is invalid.
        """
        self._assign(from_tree(app.settings, app.origin, os.environ))
        self._assign(from_environ(os.environ))
        _check_servers(self)
        app.configure(self)

    @property
    def capsules(self) -> Mapping[str, Capsule]:
        """Every capsule by name; ``default`` is the first."""
        return MappingProxyType(self._capsules)

    def capsule(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        queues: Sequence[str] | None = None,
        mode: str | None = None,
    ) -> Capsule:
        """Return the capsule ``name`` after changing the given settings; create it if it does not exist.

        Raises:
            ConfigurationError: a setting is invalid, or the worker has been launched.
        """
        self.check_open("config.capsules")
        for key, value in (("concurrency", concurrency), ("queues", queues), ("mode", mode)):
            if value is not None:
                self._capsule(name).settings.assign(key, value)
        return self._capsule(name)

    @property
    def servers(self) -> Mapping[str, RedisSection]:
        """Every server by name; ``main`` is the first."""
        return MappingProxyType(self._servers)

    @property
    def shards(self) -> Mapping[str, ShardSection]:
        """Every shard by name, in the order of the file."""
        return MappingProxyType(self._shards)

    def add_server(self, name: str, **settings: object) -> RedisSection:
        """Add a server for pushes: ``config.add_server("bulk", url="redis://…")``.

        Raises:
            ConfigurationError: the name exists already, a setting is invalid, or the worker has been launched.
        """
        self.check_open("config.servers")
        if name in self._servers:
            raise ConfigurationError(f"there is a server {name!r} already")
        section = RedisSection.of_server(name)
        for key, value in settings.items():
            section.assign(key, value)
        if not section.url:
            raise ConfigurationError(f"the server {name!r} needs a url")
        self._servers[_checked_name(name)] = section
        return section

    def server_settings(self, name: str, *, of: str = "") -> RedisSection:
        """Return the section of a server.

        Raises:
            ConfigurationError: there is no server of this name; the message begins with ``of``.
        """
        section = self._servers.get(name)
        if section is None:
            where = f"{of}: " if of else ""
            raise ConfigurationError(
                f"{where}there is no server {name!r}{suggest(name, self._servers)}: a table [servers.{name}] with its "
                f"url is missing; there are {', '.join(self._servers)}"
            )
        return section

    def check_rules(self) -> None:
        """Raise ConfigurationError if a routing rule names an unknown server."""
        for number, rule in enumerate(self.routing.rules, start=1):
            self.server_settings(rule.server or MAIN, of=f"routing.rules, rule {number}")

    def use(self, extension: Extension) -> None:
        """Install an extension; ConfigurationError if an extension with its name is installed already."""
        self.check_open("config.use")
        if extension.name in self._extensions:
            raise ConfigurationError(f"the extension {extension.name!r} is installed already")
        self._extensions[extension.name] = extension
        extension.install(self)

    @property
    def extensions(self) -> Mapping[str, Extension]:
        """The installed extensions, by name."""
        return MappingProxyType(self._extensions)

    @property
    def fetcher(self) -> str | type:
        """``"reliable"``, ``"basic"``, a dotted path, or a class."""
        return self.worker.fetcher if self._fetcher is None else self._fetcher

    @fetcher.setter
    def fetcher(self, value: str | type) -> None:
        if isinstance(value, str):
            self.worker.fetcher = value
        self._fetcher = None if isinstance(value, str) else value

    def freeze(self) -> None:
        """Validate the configuration and make it read-only; a second call does nothing.

        Raises:
            ConfigurationError: settings contradict each other.
        """
        if self._frozen:
            return
        if self.periodic and PERIODIC not in self._extensions:
            logger.warning("none of the jobs in [periodic] is pushed: config.use(Periodic()) is missing")
        self.jobs.check(self._job_options)
        self.check_rules()
        _check_servers(self)
        super().freeze()

    def _parts(self) -> Iterator[Freezable]:
        yield from super()._parts()
        yield from (*self._servers.values(), *self._shards.values(), *self._capsules.values())

    def _assign(self, assignments: Iterable[Assignment]) -> None:
        for item in assignments:
            group, _, name = item.section.partition(".")
            if group == PERIODIC:
                self.periodic.setdefault(name, {})[item.key] = item.value
            else:
                self._section(group, name).assign(item.key, item.value, origin=item.origin)

    def _section(self, group: str, name: str) -> Section | JobDefaults:
        if group == CAPSULES:
            return self._capsule(name).settings
        if group == SERVERS:
            if name not in self._servers or name == MAIN:
                self._servers[_checked_name(name)] = RedisSection.of_server(name)
            return self._servers[name]
        if group == SHARDS:
            if not name.strip():
                raise ConfigurationError('shards."": a shard needs a name, for `offsider worker --shard NAME`')
            return self._shards.setdefault(name, ShardSection.called(name))
        # If a worker serves a shard, `redis` may be another server.
        return self._servers[MAIN] if group == RedisSection.section else getattr(self, group)

    def _capsule(self, name: str) -> Capsule:
        if name not in self._capsules:
            self._capsules[name] = self._make_capsule(name, CapsuleSection.called(name))
        return self._capsules[name]

    def _make_capsule(self, name: str, settings: CapsuleSection) -> Capsule:
        return Capsule(name, settings, self.client_middleware, self.server_middleware)


def _checked_name(server: str) -> str:
    if server == MAIN or not _SERVER_NAME.fullmatch(server):
        what = "it is the name of [redis]" if server == MAIN else "a name may contain only letters, digits and _ . -"
        raise ConfigurationError(f"servers.{server}: the name cannot be used: {what}")
    return server


def _log_error(config: Config, error: BaseException, context: Mapping[str, object]) -> None:
    """Log an error: a job's error with its traceback and its next step, other errors in full for developers."""
    is_debug = logger.isEnabledFor(logging.DEBUG)
    in_full = config.worker.environment == "development" or is_debug
    then = context.get(NEXT)
    # The JSON line of the end of the run has the error already.
    traced = in_full or (then is not None and config.log.format != "json")
    # Log handlers and formatters must not see job arguments; an error handler receives the whole payload.
    own = {key: value for key, value in context.items() if key not in (DOING, NEXT)}
    fields = loggable(own, arguments=config.log.arguments)
    parts = [context.get(DOING), None if then is None else f"failed ({then})", describe(error)]
    message = ": ".join(str(part) for part in parts if part)
    extra = {"fields": fields, "folded": then is not None and not is_debug}
    logger.warning("%s", message, extra=extra, exc_info=error if traced else None)


def _serve_shard(config: Config, name: str) -> None:
    """Apply the settings of a shard, which override the rest of the file."""
    shard = config.shards.get(name)
    if shard is None:
        known = f"there are {', '.join(config.shards)}" if config.shards else "the configuration has none"
        raise ConfigurationError(f"there is no shard {name!r}{suggest(name, config.shards)}; {known}")
    config.worker.queues = shard.queues
    config.worker.concurrency = shard.concurrency or config.worker.concurrency
    config.worker.processes = shard.processes or config.worker.processes
    vars(config).update(server=shard.server, redis=config.servers[shard.server])


def _check_servers(config: Config) -> None:
    """Raise ConfigurationError for a server or a shard that contradicts itself or another one."""
    where = config.file or "the configuration"
    names: dict[tuple[object, ...], str] = {}
    for name, section in config.servers.items():
        if not section.url:
            raise ConfigurationError(f"{where}: servers.{name} needs a url")
        place = (section.url, section.prefix, section.sentinels, section.sentinel_name)
        if (other := names.setdefault(place, name)) != name:
            raise ConfigurationError(
                f"{where}: the servers {other} and {name} are the same one, {section.redacted_url}; "
                "leave one of them out"
            )
    for name, shard in config.shards.items():
        if bool(shard.queues) == bool(shard.select):
            has = "both queues and" if shard.queues else "neither queues nor"
            raise ConfigurationError(f"{where}: shards.{name} has {has} select; give one of them")
        config.server_settings(shard.server, of=f"{where}: shards.{name}.server")
