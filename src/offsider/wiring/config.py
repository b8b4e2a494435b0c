"""The configuration of one worker or client: settings, capsules, and everything that is plugged in.

1. `Config.load` reads the file, the environment and the command line; ``Config()`` has the defaults alone.
2. The application's ``configure(config)`` changes settings and registers middleware, events, handlers, services.
3. `freeze` checks the whole and closes it: threads may read it without a lock from then on.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from offsider.core.clock import SYSTEM_CLOCK, Clock
from offsider.core.errors import ConfigurationError
from offsider.core.payload import JobPayload
from offsider.storage.redis import Redis
from offsider.wiring import sources
from offsider.wiring.capsule import Capsule
from offsider.wiring.environment import (
    DEFAULT_ENVIRONMENT,
    environment_name,
    from_environ,
    from_platform,
    odd_variables,
)
from offsider.wiring.events import Events
from offsider.wiring.extension import Extension
from offsider.wiring.frozen import Listing, frozen_error
from offsider.wiring.job_defaults import JobDefaults
from offsider.wiring.kept import Kept
from offsider.wiring.leader import Leadership
from offsider.wiring.logs import describe, logger
from offsider.wiring.middleware import Chain, ClientChain, Push, ServerChain
from offsider.wiring.nearest import suggest
from offsider.wiring.push_guard import PushGuard
from offsider.wiring.routing import MAIN
from offsider.wiring.service import Service
from offsider.wiring.settings import (
    CAPSULES,
    JOBS,
    PERIODIC,
    SERVERS,
    SHARDS,
    CapsuleSection,
    ClientSection,
    LogSection,
    RedisSection,
    RoutingSection,
    Section,
    ServerSection,
    ShardSection,
    SloSection,
    WorkerSection,
    by_name,
)
from offsider.wiring.sources import Assignment, Document
from offsider.wiring.web_tab import WebTab

if TYPE_CHECKING:
    from offsider.storage.async_redis import AsyncRedis

ErrorHandler: TypeAlias = Callable[[BaseException, Mapping[str, object]], None]
DeathHandler: TypeAlias = Callable[[JobPayload, "BaseException | None"], None]
#: Looks at an installation and answers what `offsider.inspector.doctor` calls findings.
DoctorCheck: TypeAlias = Callable[["Config"], Iterable[Any]]
#: Looks at an installation and answers metrics: what `offsider.inspector.family` calls families.
MetricFamilies: TypeAlias = Callable[["Config"], Iterable[Any]]
MetricLabels: TypeAlias = Callable[[str, str], Mapping[str, str]]
T = TypeVar("T")
Handler = TypeVar("Handler", bound=Callable[..., Any])


DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
ASSIGNABLE = ("after_commit", "clock", "fetcher", "push_guard", "queue_resolver", "random", "reloader")


def no_reload() -> AbstractContextManager[object]:
    """The reloader when the application has set none."""
    return nullcontext()


class Config:
    """Everything a client or a worker needs to know.

    Attributes:
        redis, worker, client, routing, slo, log: sections of settings; each assignment is checked. ``redis`` is the
            server that this process works for: the one of the shard of a worker that serves one.
        servers: name to section of every server that pushes may go to; ``main`` is that of the section ``redis``.
        server: the name of the server that this process works for.
        shards: name to section of every shard.
        jobs: default options merged below each job's own.
        capsules: name to `Capsule`; ``default`` is always there and is the section ``worker``.
        client_middleware, server_middleware: the chains that capsules copy.
        error_handlers: called with an error and its context; the first one logs.
        death_handlers: called with the payload and the error of a job that will not be tried again.
        services: functions that make a `Service` from this config; the worker starts and stops it.
        reloader: makes a context manager that is put around each job, for example to hand back database connections.
        after_commit: takes a function and calls it when the surrounding database transaction has been committed;
            pushes go through it.
        queue_resolver: answers the queue of a push, or None to leave it; runs before client middleware.
        push_guard: stores jobs by a script of its own, which may refuse them; asked after client middleware.
        clock, random: replaceable in tests.
        periodic: what the file has below ``[periodic.NAME]``, by name, for the extension of periodic jobs.
        kept: what those who use this configuration share, such as pools and clients.
        file: the configuration file that was read, if any.
        warnings: what was odd but no error; the command line logs them.
    """

    reloader: Callable[[], AbstractContextManager[object]]
    after_commit: Callable[[Callable[[], None]], None] | None
    queue_resolver: Callable[[Push], str | None] | None
    push_guard: PushGuard | None
    clock: Clock
    random: Random

    def __init__(self) -> None:
        self._open = True
        self._frozen = False
        self._fetcher: str | type | None = None
        self._extensions: dict[str, Extension] = {}
        self._job_options: dict[str, Callable[[object], None]] = {}
        self.kept = Kept()
        self.file: Path | None = None
        self.warnings: list[str] = []
        self.redis = RedisSection()
        self.server = MAIN
        self._servers: dict[str, RedisSection] = {MAIN: self.redis}
        self._shards: dict[str, ShardSection] = {}
        self._views: dict[str, Config] = {}
        self._making_views = threading.Lock()
        self.worker = WorkerSection()
        self.client = ClientSection()
        self.routing = RoutingSection()
        self.slo = SloSection()
        self.log = LogSection()
        self.jobs = JobDefaults()
        self.periodic: dict[str, dict[str, object]] = {}
        self.client_middleware: ClientChain = Chain(what="config.client_middleware")
        self.server_middleware: ServerChain = Chain(what="config.server_middleware")
        self.events = Events(self.handle_error)
        self.error_handlers: Listing[ErrorHandler] = Listing("config.error_handlers", [self._log_error])
        self.death_handlers: Listing[DeathHandler] = Listing("config.death_handlers")
        self.services: Listing[Callable[[Config], Service]] = Listing("config.services")
        self.info_fields: Listing[Callable[[], Mapping[str, Any]]] = Listing("config.info_fields")
        self.web_tabs: Listing[WebTab] = Listing("config.web_tabs")
        self.metric_labels: Listing[MetricLabels] = Listing("config.metric_labels")
        self.metric_families: Listing[MetricFamilies] = Listing("config.metric_families")
        self.doctor_checks: Listing[DoctorCheck] = Listing("config.doctor_checks")
        self.reloader = no_reload
        self.after_commit = None
        self.queue_resolver = None
        self.push_guard = None
        self.clock = SYSTEM_CLOCK
        self.random = Random()
        self._capsules = {DEFAULT: self._make_capsule(DEFAULT, self.worker)}
        self._open = False

    def __setattr__(self, name: str, value: object) -> None:
        if not self.__dict__.get("_open", True):
            self._check_assignment(name, value)
        object.__setattr__(self, name, value)

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
        """The configuration by command line, environment, file and defaults, the former winning.

        Args:
            path: the file; else the first of ``offsider.toml``, ``pyproject.toml`` with ``[tool.offsider]`` and
                ``config/sidekiq.yml`` that is in ``cwd``, then in ``beside``.
            environ: the environment, by default the process's.
            cwd: the current folder, by default the process's.
            beside: the folder of the application.
            overrides: what the command line says, by ``section.key`` or key.
            for_worker: whether it is that of a worker, which serves the shard that ``OFFSIDER_SHARD`` names.

        Raises:
            ConfigurationError: a file or a value is wrong; the message names the file, the key and what is expected.
        """
        environ = os.environ if environ is None else environ
        given = [_override(name, value) for name, value in (overrides or {}).items()]
        folders = [folder for folder in (cwd or Path.cwd(), beside) if folder is not None]
        document = sources.find(Path(path) if path is not None else None, folders)
        config = cls()
        config._read(document, given, environ, for_worker=for_worker)
        return config

    # ---------------------------------------------------------------------------------- capsules
    @property
    def capsules(self) -> Mapping[str, Capsule]:
        """Every capsule by name; ``default`` comes first."""
        return MappingProxyType(self._capsules)

    def capsule(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        queues: Sequence[str] | None = None,
        mode: str | None = None,
    ) -> Capsule:
        """The capsule ``name``, made when there is none yet, with the given settings changed.

        Raises:
            ConfigurationError: a setting is not acceptable, or the worker has been launched.
        """
        self._check_open("config.capsules")
        for key, value in (("concurrency", concurrency), ("queues", queues), ("mode", mode)):
            if value is not None:
                self._assign_capsule(name, key, value, "")
        return self._capsule(name)

    # ---------------------------------------------------------------------------------- servers
    @property
    def servers(self) -> Mapping[str, RedisSection]:
        """Every server by name; ``main`` comes first."""
        return MappingProxyType(self._servers)

    @property
    def shards(self) -> Mapping[str, ShardSection]:
        """Every shard by name, as the file has them."""
        return MappingProxyType(self._shards)

    def add_server(self, name: str, **settings: object) -> RedisSection:
        """One more server that pushes may go to: ``config.add_server("bulk", url="redis://…")``.

        Raises:
            ConfigurationError: there is one of this name, a setting is not acceptable, or the worker has been launched.
        """
        self._check_open("config.servers")
        if name in self._servers:
            raise ConfigurationError(f"there is a server {name!r} already")
        section = ServerSection.called(name)
        for key, value in settings.items():
            section.assign(key, value)
        if not section.url:
            raise ConfigurationError(f"the server {name!r} needs a url")
        self._servers[_server_name(name)] = section
        return section

    def for_server(self, name: str) -> Config:
        """The same configuration, as a process has it that works for another server: to inspect it, and for pools.

        Raises:
            ConfigurationError: there is no server of this name.
        """
        if name == self.server:
            return self
        with self._making_views:
            if name not in self._views:
                self._views[name] = _ConfigView(self._of_process, self._named_server(name), name)
            return self._views[name]

    def redis_of(self, name: str) -> Redis:
        """The shared pool to the server ``name``; as `shared_redis`. ConfigurationError when there is none."""
        return self.for_server(name).shared_redis()

    def async_redis_of(self, name: str) -> AsyncRedis:
        """The same for asyncio."""
        return self.for_server(name).shared_async_redis()

    @property
    def _of_process(self) -> Config:
        """The configuration that the process was given; others are views of it."""
        return self

    def check_server(self, name: str, *, of: str) -> None:
        """Raise ConfigurationError, which begins with what has asked for it, when there is no server of this name."""
        try:
            self._named_server(name)
        except ConfigurationError as error:
            raise ConfigurationError(f"{of}: {error}") from None

    def check_rules(self) -> None:
        """Raise ConfigurationError when a routing rule names a server that there is not."""
        for number, rule in enumerate(self.routing.rules, start=1):
            self.check_server(rule.server or MAIN, of=f"routing.rules, rule {number}")

    def _named_server(self, name: str) -> RedisSection:
        section = self._servers.get(name)
        if section is None:
            raise ConfigurationError(
                f"there is no server {name!r}{suggest(name, self._servers)}: a table [servers.{name}] with its url is "
                f"missing; there are {', '.join(self._servers)}"
            )
        return section

    # -------------------------------------------------------------------------------- plugging in
    @overload
    def on(self, name: str, handler: None = None) -> Callable[[Handler], Handler]: ...
    @overload
    def on(self, name: str, handler: Handler) -> Handler: ...
    def on(self, name: str, handler: Callable[..., Any] | None = None) -> Any:
        """Listen to an event; see `Events.on`."""
        return self.events.on(name, handler)

    def use(self, extension: Extension) -> None:
        """Install an extension; ConfigurationError when one of its name is installed already."""
        self._check_open("config.use")
        if extension.name in self._extensions:
            raise ConfigurationError(f"the extension {extension.name!r} is installed already")
        self._extensions[extension.name] = extension
        extension.install(self)

    @property
    def stands_for_election(self) -> bool:
        """Whether a worker of this configuration wants to lead."""
        wanted = self.worker.leader
        return wanted == "always" or (wanted == "auto" and self.events.listened("leader"))

    @property
    def leads(self) -> bool:
        """Whether this process is the leader now; nothing keeps another from being it a moment later."""
        return bool(self.kept.get(Leadership, Leadership))

    @property
    def extensions(self) -> Mapping[str, Extension]:
        return MappingProxyType(self._extensions)

    def add_service(self, factory: Callable[[Config], Service]) -> None:
        """Have the worker make, start and stop a service."""
        self.services.append(factory)

    def add_info(self, fields: Callable[[], Mapping[str, Any]]) -> None:
        """Add fields to what the process tells about itself in Redis; ``fields`` is called at each beat."""
        self.info_fields.append(fields)

    def add_metric_labels(self, labels: MetricLabels) -> None:
        """Add labels to what is counted for monitoring: ``labels`` gets a job's class and queue, once per heartbeat.

        Each value that a label takes multiplies the number of series, so it should have few.
        """
        self.metric_labels.append(labels)

    def add_metrics(self, families: MetricFamilies) -> None:
        """Have a scrape of metrics tell something more: ``families`` gets the configuration of the server that is
        looked at, and answers an iterable of `offsider.inspector.family.Family`. It is quick.
        """
        self.metric_families.append(families)

    def add_doctor_check(self, check: DoctorCheck) -> None:
        """Have ``offsider doctor`` look at something more: ``check`` gets the configuration of the server that is
        looked at, and answers an iterable of `offsider.inspector.doctor.Finding`. It changes nothing, and is quick.
        """
        self.doctor_checks.append(check)

    def add_web_tab(self, tab: WebTab) -> None:
        """Add a page to the web UI."""
        if any(other.name == tab.name for other in self.web_tabs):
            raise ConfigurationError(f"there is a web tab {tab.name!r} already")
        self.web_tabs.append(tab)

    def add_job_option(self, name: str, check: Callable[[object], None]) -> None:
        """Make ``name`` an option of jobs, given as ``extra={name: …}``; ``check`` raises ValueError for bad values."""
        self._check_open("config.job_options")
        if name in self._job_options:
            raise ConfigurationError(f"there is a job option {name!r} already")
        self._job_options[name] = check

    @property
    def job_options(self) -> Mapping[str, Callable[[object], None]]:
        """The options that extensions brought, with the check of each."""
        return MappingProxyType(self._job_options)

    @property
    def fetcher(self) -> str | type:
        """``"reliable"``, ``"basic"``, a dotted path, or a class."""
        return self.worker.fetcher if self._fetcher is None else self._fetcher

    @fetcher.setter
    def fetcher(self, value: str | type) -> None:
        if isinstance(value, str):
            self.worker.fetcher = value
        self._fetcher = None if isinstance(value, str) else value

    def make_redis(self, size: int) -> Redis:
        """A pool of at most ``size`` connections to the server of ``[redis]``; nothing is opened yet."""
        return Redis(self.redis, size=size)

    def make_async_redis(self, size: int) -> AsyncRedis:
        """The same for asyncio."""
        # Imported here: asyncio costs a synchronous program more than all the rest of this module.
        from offsider.storage.async_redis import AsyncRedis

        return AsyncRedis(self.redis, size=size)

    def shared_redis(self) -> Redis:
        """The pool of everything in this process that has none of its own: clients, and whoever looks at queues.

        Made at first use, with ``redis.client_pool_size`` connections; thread-safe.
        """
        return self.kept.get(Redis, lambda: self.make_redis(self.redis.client_pool_size))

    def shared_async_redis(self) -> AsyncRedis:
        """The same for asyncio: so many connections for each event loop."""
        from offsider.storage.async_redis import AsyncRedis  # see `make_async_redis`

        return self.kept.get(AsyncRedis, lambda: self.make_async_redis(self.redis.client_pool_size))

    def close(self) -> None:
        """Close the idle connections of the shared pools, which may be used again."""
        for redis in self.kept_of_all_servers(Redis):
            redis.close()

    def kept_of_all_servers(self, kind: type[T]) -> list[T]:
        """What there is of this kind, here and in the views of this configuration for other servers."""
        found = (config.kept.peek(kind) for config in (self._of_process, *self._views.values()))
        return [each for each in found if each is not None]

    # ----------------------------------------------------------------------------------- errors
    def handle_error(self, error: BaseException, context: Mapping[str, object]) -> None:
        """Report an error to every error handler. Never raises: a failing handler is logged."""
        for handler in self.error_handlers:
            try:
                handler(error, context)
            except (Exception, SystemExit):  # noqa: BLE001  # the last resort must not fail itself
                with suppress(Exception):  # a filter or a handler of the log may be what is broken
                    logger.exception("an error handler failed while it reported %s", describe(error))

    def _log_error(self, error: BaseException, context: Mapping[str, object]) -> None:
        """One line; the traceback too in development and at the level debug."""
        in_full = self.worker.environment == "development" or logger.isEnabledFor(logging.DEBUG)
        logger.warning("%s", describe(error), extra={"fields": dict(context)}, exc_info=error if in_full else None)

    # ----------------------------------------------------------------------------------- freeze
    @property
    def frozen(self) -> bool:
        return self._frozen

    def freeze(self) -> None:
        """Check the whole and close it; a second call does nothing.

        Raises:
            ConfigurationError: parts do not fit together.
        """
        if self._frozen:
            return
        if self.periodic and PERIODIC not in self._extensions:
            logger.warning("none of the jobs in [periodic] is pushed: config.use(Periodic()) is missing")
        self.jobs.check(self._job_options)
        self.check_rules()
        self._check_different_servers()
        closing: list[Any] = [
            *self._capsules.values(),
            *self._servers.values(),
            *self._shards.values(),
            self.worker,
            self.client,
            self.routing,
            self.slo,
            self.log,
        ]
        closing += [self.jobs, self.client_middleware, self.server_middleware, self.events, self.error_handlers]
        closing += [
            self.death_handlers,
            self.services,
            self.info_fields,
            self.web_tabs,
            self.metric_labels,
            self.metric_families,
            self.doctor_checks,
        ]
        for part in closing:
            part.freeze()
        self._open = True
        self._frozen = True
        self._open = False

    # ---------------------------------------------------------------------------------- loading
    def _read(
        self, document: Document | None, given: Sequence[Assignment], environ: Mapping[str, str], *, for_worker: bool
    ) -> None:
        self._open = True
        if document is not None:
            self.file = document.path
            self.warnings += document.notes
        self.warnings += odd_variables(environ)
        self._open = False
        self._assign_all(from_platform(environ))
        if document is not None:
            environment = _environment(document, given, environ)
            self._assign_all(sources.from_document(document, environment, environ))
        stronger = [*from_environ(environ, self._capsules, for_worker=for_worker), *given]
        self._assign_all(stronger)
        self._check_servers()
        if self.worker.shard:
            self._serve(self.worker.shard)
            self._assign_all(stronger)

    def _check_servers(self) -> None:
        where = self.file or "the configuration"
        for name, section in self._servers.items():
            if not section.url:
                raise ConfigurationError(f"{where}: servers.{name} needs a url")
        self._check_different_servers()
        for name, shard in self._shards.items():
            if shard.queues and shard.select:
                raise ConfigurationError(f"{where}: shards.{name} has both queues and select; give one of them")
            if shard.server not in self._servers:
                raise ConfigurationError(
                    f"{where}: shards.{name}.server is {shard.server!r}, and there is no such server"
                    f"{suggest(shard.server, self._servers)}: a table [servers.{shard.server}] is missing"
                )
            if 0 < shard.max_replicas < shard.min_replicas:
                raise ConfigurationError(
                    f"{where}: shards.{name}.min_replicas is {shard.min_replicas}, above its max_replicas, "
                    f"{shard.max_replicas}: set it to that at most"
                )
            if not shard.queues and not shard.select:
                raise ConfigurationError(f"{where}: shards.{name} has neither queues nor select; give one of them")

    def _check_different_servers(self) -> None:
        """Two names of one server would have its jobs move from it to itself."""
        named: dict[tuple[object, ...], str] = {}
        for name, section in self._servers.items():
            place = (section.url, section.key_prefix, section.sentinels, section.sentinel_name)
            other = named.setdefault(place, name)
            if other != name:
                raise ConfigurationError(
                    f"{self.file or 'the configuration'}: the servers {other} and {name} are the same one, "
                    f"{section.redacted_url}; leave one of them out"
                )

    def _serve(self, name: str) -> None:
        """Work for a shard: what it says stands above the rest of the file."""
        shard = self._shards.get(name)
        if shard is None:
            known = f"there are {', '.join(self._shards)}" if self._shards else "the configuration has none"
            raise ConfigurationError(f"there is no shard {name!r}{suggest(name, self._shards)}; {known}")
        origin = f"{SHARDS}.{name}"
        self.worker.assign("queues", shard.queues, origin=origin)
        # The groups of the file are other queues for the processes of its supervisor.
        self.worker.assign("groups", (), origin=origin)
        self.worker.assign("mode", shard.mode, origin=origin)
        for key, number in (("concurrency", shard.concurrency), ("processes", shard.processes)):
            if number:
                self.worker.assign(key, number, origin=origin)
        self._open = True
        self.server, self.redis = shard.server, self._servers[shard.server]
        self._open = False

    def _assign_all(self, assignments: Iterable[Assignment]) -> None:
        for item in assignments:
            self._assign(item)

    def _assign(self, item: Assignment) -> None:
        if item.section == JOBS:
            self.jobs.assign(item.key, item.value, origin=item.origin)
        elif item.section.startswith(f"{PERIODIC}."):
            self.periodic.setdefault(item.section.partition(".")[2], {})[item.key] = item.value
        elif item.section.startswith(f"{CAPSULES}."):
            name = item.section.partition(".")[2]
            self._assign_capsule(name, item.key, item.value, item.origin)
        elif item.section.startswith(f"{SERVERS}."):
            self._server(item.section.partition(".")[2]).assign(item.key, item.value, origin=item.origin)
        elif item.section.startswith(f"{SHARDS}."):
            self._shard(item.section.partition(".")[2]).assign(item.key, item.value, origin=item.origin)
        elif item.section == RedisSection.section:
            self._servers[MAIN].assign(item.key, item.value, origin=item.origin)
        else:
            section: Section = getattr(self, item.section)
            section.assign(item.key, item.value, origin=item.origin)

    def _assign_capsule(self, name: str, key: str, value: object, origin: str) -> None:
        self._capsule(name).settings.assign(key, value, origin=origin)

    def _server(self, name: str) -> RedisSection:
        if name not in self._servers or name == MAIN:
            self._servers[_server_name(name)] = ServerSection.called(name)
        return self._servers[name]

    def _shard(self, name: str) -> ShardSection:
        if not name.strip():
            raise ConfigurationError('shards."": a shard needs a name, by which its workers are started')
        return self._shards.setdefault(name, ShardSection.called(name))

    def _capsule(self, name: str) -> Capsule:
        if name not in self._capsules:
            self._capsules[name] = self._make_capsule(name, CapsuleSection.called(name))
        return self._capsules[name]

    def _make_capsule(self, name: str, settings: CapsuleSection) -> Capsule:
        return Capsule(name, settings, self)

    # ---------------------------------------------------------------------------------- guarding
    def _check_assignment(self, name: str, value: object) -> None:
        self._check_open(f"config.{name}")
        if name not in ASSIGNABLE and not name.startswith("_"):
            hint = suggest(name, ASSIGNABLE)
            raise ConfigurationError(f"config.{name} cannot be assigned{hint}; what can is {', '.join(ASSIGNABLE)}")
        if name == "reloader" and not callable(value):
            raise ConfigurationError(f"config.{name} expects a callable, got {value!r}")

    def _check_open(self, what: str) -> None:
        if self._frozen:
            raise frozen_error(what)


class _ConfigView(Config):
    """A configuration as a process has it that works for another server: all else is that configuration's, at any time.

    Args:
        of: what the process was given.
        redis: the section of the other server.
        server: its name.
    """

    def __init__(self, of: Config, redis: RedisSection, server: str) -> None:
        # Past `__setattr__`, which hands over to the other one. What is not here is looked for there.
        vars(self).update(_of=of, redis=redis, server=server, kept=Kept(), _own_capsules={})

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_of"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._of_process, name, value)

    @property
    def _of_process(self) -> Config:
        of: Config = vars(self)["_of"]
        return of

    def for_server(self, name: str) -> Config:
        """As of the other one, which is the view of its own server."""
        return self._of_process.for_server(name)

    def use(self, extension: Extension) -> None:
        """Install it for the process."""
        self._of_process.use(extension)

    @property
    def capsules(self) -> Mapping[str, Capsule]:
        """Capsules of the same names and settings, with connections to this server."""
        own: dict[str, Capsule] = vars(self)["_own_capsules"]
        for name, capsule in self._of_process.capsules.items():
            if name not in own:
                own[name] = Capsule(name, capsule.settings, self)
        return MappingProxyType(own)


def _server_name(name: str) -> str:
    if name == MAIN or not _NAME.fullmatch(name):
        what = "it is that of [redis]" if name == MAIN else "a name is letters, digits and _ . -"
        raise ConfigurationError(f"servers.{name}: the name cannot be used: {what}")
    return name


def _override(name: str, value: object) -> Assignment:
    setting = by_name().get(name)
    if setting is None:
        raise ConfigurationError(f"there is no setting {name}{suggest(name, by_name())}")
    return Assignment(setting.section, setting.key, value, setting.option or "command line")


def _environment(document: Document, given: Iterable[Assignment], environ: Mapping[str, str]) -> str:
    """Which part of the file's environments holds: by ``-e``, the environment's variables, then the file itself."""
    for item in given:
        if (item.section, item.key) == ("worker", "environment"):
            return str(item.value)
    nested: Any = document.tree.get("worker") or {}
    written: Any = document.tree.get("environment") or (nested.get("environment") if hasattr(nested, "get") else None)
    return environment_name(environ) or str(written or DEFAULT_ENVIRONMENT)
