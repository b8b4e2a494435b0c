"""A job with options for its pushes: the result of ``using`` and ``via``, and the base of job functions. Its calls.

Options precede the call, as in ``job.using(queue="low").enqueue(1)``, so that the call has exactly the job's signature.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, NoReturn, ParamSpec, TypedDict, TypeVar, Unpack

from offsider.client import Client
from offsider.client.times import expected_time
from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions
from offsider.core.job_id import JobId
from offsider.core.options import JobOptions, merge_options, wire_options
from offsider.jobs.clients import ClientSource, client_for
from offsider.jobs.declared import ONLY_DECLARED, Declared, check_all_options
from offsider.jobs.inline import run_prepared

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

Moment = datetime | float
Delay = float | timedelta
Due = Delay | datetime | Sequence[Delay | datetime]

#: Methods of other systems that no job has, and ours.
OF_OTHERS = {
    "apply_async": "enqueue, enqueue_in, enqueue_at or using(...).enqueue",
    "apply": "run_inline",
    "delay": "enqueue",
    "result": "the id that enqueue returned: jid.result()",
    "retry": "an exception, or raise Reschedule(seconds)",
    "s": "call",
    "schedule": "enqueue_in or enqueue_at",
    "send": "enqueue",
    "send_with_options": "using(...).enqueue or enqueue_in",
}


@dataclass(frozen=True, slots=True)
class JobCall(Generic[P, R_co]):
    """The result of ``some_job.call(...)``: an element for ``some_job.enqueue_many(...)``, or a step of a workflow.

    Attributes:
        options: those of ``using``, for a step; a bulk push has its own.
    """

    declared: Declared
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


class BulkOptions(TypedDict, total=False):
    """Keyword arguments of a bulk push; `Enqueuer.enqueue_many` describes them."""

    at: Due | None
    spread_interval: float | timedelta | None
    batch_size: int | None


class Enqueuer(Generic[P, R_co]):
    """A job with options. Immutable: ``using`` and ``via`` return a new one.

    Every method that stores a job raises InvalidJob (InvalidArguments, InvalidOptions) for an invalid push,
    RedisUnavailable and RedisRefused if the server does not store it, and NotReplicated if fewer replicas than
    ``wait_replicas`` confirm it. The id of a push that client middleware canceled, or of a duplicate, is falsy.

    Attributes:
        declared: the declaration of the job.
        perform_async, perform_in, perform_at: Sidekiq's names of `enqueue`, `enqueue_in` and `enqueue_at`.
        perform_bulk: Sidekiq's name of `enqueue_many`.
        perform_inline, perform_sync: Sidekiq's names of `run_inline`.
        set: Sidekiq's name of `using`.
    """

    def __init__(
        self, declared: Declared, options: Mapping[str, Any] | None = None, client: ClientSource | None = None
    ) -> None:
        self.declared = declared
        self._options = given = dict(options or {})
        self._client = client
        #: Identifies job and options for clients; 1 and True are equal.
        self._key: object = (declared, *given.items(), *map(type, given.values())) if given else declared

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of ``using``, without those of the declaration."""
        return self._options

    # Options first

    def using(self, **options: Unpack[JobOptions]) -> Enqueuer[P, R_co]:
        """Return the job with options for a push, which take precedence over the declared ones."""
        return Enqueuer(self.declared, merge_options(self._options, options), self._client)

    def via(self, client: ClientSource) -> Enqueuer[P, R_co]:
        """Return the job with another client, for example for another server. Raises InvalidOptions for None."""
        given: object = client
        if given is None:
            raise InvalidOptions(
                f"{self.declared.name}: via expects a client, or a function that returns one, got None"
            )
        return Enqueuer(self.declared, self._options, client)

    # Now, later, many

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobId[R_co]:
        """Store the job to run as soon as a worker is free, and return its jid."""
        client = self._chosen_client()
        if kwargs:
            return client.push(self._checked(client, self._now_item(args, kwargs)))
        return client.push_call(self.declared, self._key, args, self._checked)

    def enqueue_in(self, delay: Delay, /, *args: P.args, **kwargs: P.kwargs) -> JobId[R_co]:
        """Store the job to run after ``delay``, seconds or a timedelta, and return its jid."""
        client = self._chosen_client()
        return client.push(self._checked(client, self._later_item(delay, args, kwargs)))

    def enqueue_at(self, when: Moment, /, *args: P.args, **kwargs: P.kwargs) -> JobId[R_co]:
        """Store the job to run at ``when``, an aware datetime or epoch seconds; immediately if it is in the past.

        A number below 1e9 counts as seconds from now, as in Sidekiq.
        """
        client = self._chosen_client()
        return client.push(self._checked(client, self._later_item(when, args, kwargs)))

    def enqueue_many(
        self,
        calls: Iterable[JobCall[P, Any] | tuple[Any, ...] | list[Any]],
        *,
        at: Due | None = None,
        spread_interval: float | timedelta | None = None,
        batch_size: int | None = None,
    ) -> list[JobId[R_co]]:
        """Store many jobs in few round trips and return their jids, one for each call.

        Args:
            calls: ``job.call(...)`` values, which type checkers check, or tuples of arguments; may be lazy.
            at: one time for all, or one for each: seconds or a timedelta from now, an aware datetime.
            spread_interval: start the jobs at random times within this many seconds, or a timedelta (at least 5
                seconds).
            batch_size: jobs per round trip; default 1,000, or 100 for scheduled jobs.
        """
        client = self._chosen_client()
        how = {"at": at, "spread_interval": spread_interval, "batch_size": batch_size}
        return client.push_bulk(self._bulk_item(client, calls, how))

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> JobCall[P, R_co]:
        """Create an element for `enqueue_many`, or a step of a workflow.

        Raises InvalidArguments if the arguments do not match.
        """
        self.declared.bind(args, kwargs)
        return JobCall(self.declared, args, kwargs, self._options)

    def item(self, client: Client, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `Client.build` takes for a push with these arguments. Raises InvalidOptions."""
        if self.declared.obstacle:
            self.declared.warn_once()
        return self._checked(client, self._now_item(args, kwargs))

    def run_inline(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co | None:
        """Run the job immediately, without Redis, and return its result.

        Arguments are converted to JSON and back. Client and server middleware run as in a worker, and an ``async def``
        job runs until it returns. This is Sidekiq's ``perform_inline`` and ``set(sync: true)``. A plain call of a job
        function skips all this. Returns None if client middleware canceled the push, or the job raised Skip or Discard.
        """
        client = client_for(self._client)
        item = self._checked(client, self._now_item(args, kwargs))
        for option in ("after_commit", "wait_replicas"):  # of a push, and not of the payload
            item.pop(option, None)
        prepared = client.prepare(client.build(item))
        result: R_co | None = None if prepared is None else run_prepared(client.config, prepared, self.declared)
        return result

    def lookup(self, jid: str) -> JobId[R_co]:
        """Return the id of a stored job from a string, as `offsider.lookup` does, with the type of its result.

        The job is on the server of ``using`` or of the declaration. Raises ConfigurationError for an unknown server.
        """
        return lookup(jid, self._options.get("server", self.declared.declared_server))

    # The same for code on an event loop

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobId[R_co]:
        """As `enqueue`, without blocking the event loop."""
        client = self._chosen_client()
        if kwargs:
            return await client.apush(self._checked(client, self._now_item(args, kwargs)))
        return await client.apush_call(self.declared, self._key, args, self._checked)

    async def aenqueue_in(self, delay: Delay, /, *args: P.args, **kwargs: P.kwargs) -> JobId[R_co]:
        """As `enqueue_in`, without blocking the event loop."""
        client = self._chosen_client()
        return await client.apush(self._checked(client, self._later_item(delay, args, kwargs)))

    async def aenqueue_at(self, when: Moment, /, *args: P.args, **kwargs: P.kwargs) -> JobId[R_co]:
        """As `enqueue_at`, without blocking the event loop."""
        client = self._chosen_client()
        return await client.apush(self._checked(client, self._later_item(when, args, kwargs)))

    async def aenqueue_many(
        self, calls: Iterable[JobCall[P, Any] | tuple[Any, ...] | list[Any]], **how: Unpack[BulkOptions]
    ) -> list[JobId[R_co]]:
        """As `enqueue_many`, without blocking the event loop."""
        client = self._chosen_client()
        return await client.apush_bulk(self._bulk_item(client, calls, how))

    # Sidekiq's names

    perform_async = enqueue
    perform_in = enqueue_in
    perform_at = enqueue_at
    perform_bulk = enqueue_many
    perform_inline = run_inline
    perform_sync = run_inline
    set = using

    # How

    def _chosen_client(self) -> Client:
        if self.declared.obstacle:
            self.declared.warn_once()
        return client_for(self._client)

    # The order of keys is Sidekiq's: perform_async puts args first, all other methods the class.

    def _now_item(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        item = {"args": args, "class": self.declared}
        return {**item, "kwargs": kwargs} if kwargs else item

    def _later_item(self, when: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if when is None:  # in a pushed mapping it means now; here it is an error
            raise InvalidOptions(f"{self.declared.name}: {expected_time(when)}")
        item = {"class": self.declared, "args": args, "at": when}
        return {**item, "kwargs": kwargs} if kwargs else item

    def _bulk_item(self, client: Client, calls: Iterable[Any], how: Mapping[str, object]) -> dict[str, Any]:
        given = {name: value for name, value in how.items() if value is not None}
        return self._checked(client, {"class": self.declared, "args": calls, **given})

    def _checked(self, client: Client, item: dict[str, Any]) -> dict[str, Any]:
        """Merge ``item`` with the options of ``using``, which are checked against the client's extensions."""
        options = self._options
        if not options:
            return item
        misplaced = ONLY_DECLARED.intersection(options)
        if misplaced:
            raise InvalidOptions(
                f"{self.declared.name}: set {', '.join(misplaced)} in @job(...), not for a single push"
            )
        check_all_options(options, client.config, job_name=self.declared.name)
        stored = wire_options(options)
        for name in ("after_commit", "wait_replicas", "server"):
            if name in options:
                stored[name] = options[name]
        return {**stored, **item}


class _OfOthers:
    """A missing method. Not `__getattr__`, which would make every other attribute of the class slow."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        message = f"{owner.__name__!r} object has no attribute {self._name!r}: use {OF_OTHERS[self._name]}"
        raise AttributeError(message, name=self._name, obj=instance)


for _name in OF_OTHERS:
    setattr(Enqueuer, _name, _OfOthers(_name))


def lookup(jid: str, server: str = "") -> JobId[Any]:
    """Return the id of a stored job, to read its state and its result, or to cancel it. Sends no command.

    ::

        offsider.lookup(request.args["jid"]).status()

    Args:
        jid: the id, as ``enqueue`` returned it.
        server: the name of the server that has the job; by default the one that this process works for.

    Raises:
        ConfigurationError: there is no server of this name.
    """
    return JobId.at(Installation.of(server=server), jid)
