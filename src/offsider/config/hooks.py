"""Extension points of a configuration: middleware, event handlers, services, web pages, checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, overload

from offsider.config.containers import Listing, frozen_error
from offsider.config.push_effects import PushEffects
from offsider.config.push_guard import PushGuard
from offsider.core.clock import SYSTEM_CLOCK, Clock
from offsider.core.error_text import describe
from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.core.job_id import JobResults
from offsider.core.options import OUTBOX
from offsider.core.payload import JobPayload
from offsider.core.suggestions import suggest
from offsider.logs.setup import logger
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


class PendingPushes(Protocol):
    """Pushes that a client gives to the outbox; `client.deferred.DeferredCallback` implements it."""

    def prepare(self) -> Sequence[Any]:
        """Run client middleware and return a `client.Prepared` for each push that it did not cancel, with its server.

        A second call returns the same jobs.
        """
        ...


class OutboxWriter(Protocol):
    """The interface of ``config.outbox``. Must be thread-safe.

    Attributes:
        default: whether it takes the pushes of jobs without the option ``after_commit``.
    """

    @property
    def default(self) -> bool: ...

    def hook(self) -> Callable[[Any], None] | None:
        """Return the function that takes `PendingPushes` and writes their rows; None if no transaction can:
        then a push with ``after_commit="outbox"`` is an error, and others bypass the outbox.
        """
        ...


def check_installed(options: Mapping[str, Any], outbox: OutboxWriter | None, *, job_name: str) -> None:
    """Raise InvalidOptions for ``after_commit="outbox"`` without an outbox."""
    if options.get("after_commit") == OUTBOX and outbox is None:
        raise InvalidOptions(
            f'{job_name}: after_commit="outbox" needs an outbox: set OFFSIDER["outbox"] = True in the settings of '
            "Django; elsewhere call config.use(SQLAlchemyOutbox(...)), imported from "
            "offsider.integrations.sqlalchemy_outbox, in a function with @configure_client"
        )


class LimitsInCode(Protocol):
    """The interface of ``config.limits``; `offsider.ext.concurrency_limits` implements it."""

    def wants_threads(self, jobs: Iterable[Any]) -> bool:
        """Whether limits of these jobs depend on the number of threads in the fleet."""
        ...

    def limit_of(self, job: Any, config: Any, fleet_threads: int) -> int:
        """Return the maximum concurrent runs of a job: 0 for no limit, -1 if nothing may run."""
        ...

    def rate_of(self, job: Any) -> Rate:
        """Return the maximum starts of a job in a time."""
        ...


ErrorHandler: TypeAlias = Callable[[BaseException, Mapping[str, object]], None]
DeathHandler: TypeAlias = Callable[[JobPayload, "BaseException | None"], None]
#: Examines one server, an `Installation`, and returns findings; see `offsider.inspector.finding`.
DoctorCheck: TypeAlias = Callable[[Any], Iterable[Any]]
#: Reads one server, an `Installation`, and returns metric families; see `offsider.prometheus`.
MetricFamilies: TypeAlias = Callable[[Any], Iterable[Any]]
#: See `Hooks.removal_effects`.
RemovalEffects: TypeAlias = "Callable[[JobRemoved], Sequence[Effect]]"
#: See `Hooks.move_effects`.
MoveEffects: TypeAlias = "Callable[[JobPlaced], Sequence[Effect]]"
MetricLabels: TypeAlias = Callable[[str, str], Mapping[str, str]]
Handler = TypeVar("Handler", bound=Callable[..., Any])

ASSIGNABLE = (
    *(
        "after_commit",
        "clock",
        "fetcher",
        "limits",
        "outbox",
        "push_guard",
        "queue_resolver",
        "random",
        "reloader",
        "results",
    ),
)


class Hooks:
    """The part of a configuration that only Python code can set; `Config` adds the settings.

    What gets a `Config` or an `Installation` is typed with Any here, because their modules import this one.

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
        info_fields, metric_labels, metric_families, doctor_checks, web_tabs: what extensions add to the process info,
            the metrics, `offsider doctor` and the web UI. Each has a method that adds one.
        queue_sources: return a `shards.RoutedQueue` for each queue that no declaration names, such as those of
            Django's tasks.
        queue_resolver: returns the queue of a push, or None to keep it; runs before client middleware.
        push_effects: scripts that run in the script that stores a job; see `offsider.config.push_effects`.
        removal_effects: called for each job that an operator is about to delete, kill or quarantine, or a worker to
            remove without a run; return effects (`offsider.storage.effects.Effect`), which run in the script that
            removes the job.
        move_effects: the same for each job that an operator is about to move to its queue, back from quarantine, or to
            another time.
        push_guard: stores jobs with a script that may refuse them; called after client middleware.
        results: returns the object that reads the states and results of the jobs of a server; see `JobId`.
        limits: evaluates the concurrency and rate limits in code.
        clock, random: replaceable in tests.
    """

    reloader: ServerMiddleware | None
    after_commit: Callable[[Callable[[], None]], None] | None
    outbox: OutboxWriter | None
    queue_resolver: Callable[[Push], str | None] | None
    push_guard: PushGuard | None
    results: Callable[[Any], JobResults] | None
    limits: LimitsInCode | None
    clock: Clock
    random: Random

    def __init__(self) -> None:
        self._open = True
        self._frozen = False
        self._job_options: dict[str, Callable[[object], None]] = {}
        self.client_middleware: ClientChain = MiddlewareChain(what="config.client_middleware")
        self.server_middleware: ServerChain = MiddlewareChain(what="config.server_middleware")
        self.events = Events(self.handle_error)
        self.error_handlers: Listing[ErrorHandler] = Listing("config.error_handlers")
        self.death_handlers: Listing[DeathHandler] = Listing("config.death_handlers")
        self.services: Listing[Callable[[Any], Service]] = Listing("config.services")
        self.info_fields: Listing[Callable[[], Mapping[str, Any]]] = Listing("config.info_fields")
        self.push_effects: Listing[PushEffects] = Listing("config.push_effects")
        self.removal_effects: Listing[RemovalEffects] = Listing("config.removal_effects")
        self.move_effects: Listing[MoveEffects] = Listing("config.move_effects")
        self.admissions: ServerChain = MiddlewareChain(what="config.admissions")
        self.web_tabs: Listing[Any] = Listing("config.web_tabs")
        self.metric_labels: Listing[MetricLabels] = Listing("config.metric_labels")
        self.metric_families: Listing[MetricFamilies] = Listing("config.metric_families")
        self.doctor_checks: Listing[DoctorCheck] = Listing("config.doctor_checks")
        self.queue_sources: Listing[Callable[[Any], Iterable[Any]]] = Listing("config.queue_sources")
        self.reloader = None
        self.after_commit = None
        self.outbox = None
        self.queue_resolver = None
        self.push_guard = None
        self.results = None
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

    def add_service(self, factory: Callable[[Any], Service]) -> None:
        """Add a service that the worker creates, starts and stops."""
        self.services.append(factory)

    def add_info(self, fields: Callable[[], Mapping[str, Any]]) -> None:
        """Add fields to the process info in Redis; ``fields`` is called at each heartbeat."""
        self.info_fields.append(fields)

    def add_metric_labels(self, labels: MetricLabels) -> None:
        """Add labels to the metrics of jobs: ``labels`` is called with a job's class and queue, once per heartbeat.

        Each value of a label multiplies the number of time series, so a label should have few values.
        """
        self.metric_labels.append(labels)

    def add_metrics(self, families: MetricFamilies) -> None:
        """Add metrics to each scrape.

        Args:
            families: called with the scraped `Installation`; returns an iterable of `offsider.prometheus.Family`.
                Must be fast.
        """
        self.metric_families.append(families)

    def add_doctor_check(self, check: DoctorCheck) -> None:
        """Add a check to ``offsider doctor``.

        Args:
            check: called with the examined `Installation`; returns an iterable of `offsider.inspector.finding.Finding`.
                Must change nothing and be fast.
        """
        self.doctor_checks.append(check)

    def add_web_tab(self, tab: Any) -> None:
        """Add an `offsider.web.WebTab` to the web UI."""
        if any(other.name == tab.name for other in self.web_tabs):
            raise ConfigurationError(f"there is a web tab {tab.name!r} already")
        self.web_tabs.append(tab)

    def add_job_option(self, name: str, check: Callable[[object], None]) -> None:
        """Add a job option, set by ``extra={name: …}``; ``check`` raises ValueError for invalid values."""
        self._check_open("config.job_options")
        if name in self._job_options:
            raise ConfigurationError(f"there is a job option {name!r} already")
        self._job_options[name] = check

    @property
    def job_options(self) -> Mapping[str, Callable[[object], None]]:
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
        for part in vars(self).values():
            if isinstance(part, MiddlewareChain | Events | Listing):
                part.freeze()
        vars(self)["_frozen"] = True

    def thaw(self) -> None:
        """Accept changes again."""
        for part in vars(self).values():
            if isinstance(part, MiddlewareChain | Events | Listing):
                vars(part)["_frozen"] = False
        vars(self)["_frozen"] = False

    def __setattr__(self, name: str, value: object) -> None:
        if not self.__dict__.get("_open", True):
            self._check_assignment(name, value)
        object.__setattr__(self, name, value)

    def _check_assignment(self, name: str, value: object) -> None:
        self._check_open(f"config.{name}")
        if name not in ASSIGNABLE and not name.startswith("_"):
            hint = suggest(name, ASSIGNABLE)
            raise ConfigurationError(f"config.{name} cannot be assigned{hint}; assignable are {', '.join(ASSIGNABLE)}")
        if name == "reloader" and value is not None:
            check_middleware(value, "config.reloader")

    def _check_open(self, what: str) -> None:
        if self._frozen:
            raise frozen_error(what)
