"""The configuration of one worker or client: settings, capsules, and extension points.

1. `Config.load` reads the file, the environment and the command line; ``Config()`` has only the defaults.
2. The application's ``configure(config)`` changes settings and registers middleware, events, handlers, services.
3. `freeze` validates the configuration and makes it read-only: threads may then read it without a lock.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from offsider.config.application import Application
from offsider.config.capsule import Capsule
from offsider.config.containers import Shared
from offsider.config.environment import from_environ
from offsider.config.files import Assignment, current_folder, from_tree
from offsider.config.hooks import Hooks
from offsider.config.job_defaults import JobDefaults
from offsider.config.loading import (
    Loaded,
    check_different_servers,
    check_server,
    check_server_name,
    check_servers,
    check_shards,
    of_shard,
    read_all,
)
from offsider.config.routing import MAIN
from offsider.config.settings import (
    CAPSULES,
    PERIODIC,
    SERVERS,
    SHARDS,
    CapsuleSection,
    ClientSection,
    LogSection,
    RedisSection,
    RoutingSection,
    Section,
    ShardSection,
    SloSection,
    WorkerSection,
)
from offsider.core.error_text import describe
from offsider.core.errors import ConfigurationError
from offsider.logs.setup import logger
from offsider.logs.structured import loggable

DEFAULT = "default"
#: Keys of an error handler's context: what the worker did when the error was raised, and what happens to the failed
#: job next.
DOING = "context"
NEXT = "next"


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
        redis, worker, client, routing, slo, log: sections of settings; each assignment is checked. ``redis`` is the
            server that this process uses: its shard's server, if the worker serves a shard.
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
        config = cls()
        config._apply(
            read_all(None if path is None else Path(path), folders, environ, overrides or {}, for_worker=for_worker)
        )
        return config

    def adopt(self, app: Application) -> None:
        """Apply the settings and the code of a web application; the environment remains stronger.

        Raises:
            ConfigurationError: a setting is invalid.
        """
        self._assign_all(from_tree(app.settings, app.origin, os.environ))
        self._assign_all(from_environ(os.environ, for_worker=False))
        check_servers(self._servers, self.file)
        check_shards(self._shards, self._servers, self.file)
        app.configure(self)

    # ---------------------------------------------------------------------------------- capsules
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
        self._check_open("config.capsules")
        for key, value in (("concurrency", concurrency), ("queues", queues), ("mode", mode)):
            if value is not None:
                self._capsule(name).settings.assign(key, value)
        return self._capsule(name)

    # ---------------------------------------------------------------------------------- servers
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
        self._check_open("config.servers")
        if name in self._servers:
            raise ConfigurationError(f"there is a server {name!r} already")
        section = RedisSection.of_server(name)
        for key, value in settings.items():
            section.assign(key, value)
        if not section.url:
            raise ConfigurationError(f"the server {name!r} needs a url")
        self._servers[check_server_name(name)] = section
        return section

    def check_rules(self) -> None:
        """Raise ConfigurationError if a routing rule names an unknown server."""
        for number, rule in enumerate(self.routing.rules, start=1):
            check_server(rule.server or MAIN, self._servers, of=f"routing.rules, rule {number}")

    def use(self, extension: Extension) -> None:
        """Install an extension; ConfigurationError if an extension with its name is installed already."""
        self._check_open("config.use")
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
        check_different_servers(self._servers, self.file)
        for capsule in self._capsules.values():
            capsule.freeze()
        self.jobs.freeze()
        for section in self._sections():
            section.freeze()
        super().freeze()

    def thaw(self) -> None:
        """Accept changes again, after the worker has stopped."""
        for capsule in self._capsules.values():
            capsule.thaw()
        for part in (self.jobs, *self._sections()):
            vars(part)["_frozen"] = False
        super().thaw()

    def _sections(self) -> Iterator[Section]:
        yield from (*self._servers.values(), *self._shards.values())
        yield from (self.worker, self.client, self.routing, self.slo, self.log)

    # ---------------------------------------------------------------------------------- loading
    def _apply(self, loaded: Loaded) -> None:
        vars(self)["file"] = loaded.file
        vars(self)["application"] = loaded.application
        self.warnings.extend(loaded.warnings)
        self._assign_all(loaded.written)
        self._assign_all(loaded.stronger)
        check_servers(self._servers, self.file)
        check_shards(self._shards, self._servers, self.file)
        if self.worker.shard:
            self._assign_all([*of_shard(self.worker.shard, self._shards), *loaded.stronger])
            server = self._shards[self.worker.shard].server
            vars(self).update(server=server, redis=self._servers[server])

    def _assign_all(self, assignments: Iterable[Assignment]) -> None:
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
                self._servers[check_server_name(name)] = RedisSection.of_server(name)
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
