"""A declared job: its stored name, options and signature, and how to run it."""

from __future__ import annotations

import functools
import inspect
import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, cast

from offsider.config import test_mode
from offsider.config.app_version import app_version
from offsider.config.config import Config
from offsider.config.hooks import check_installed
from offsider.core.characteristics import Characteristics
from offsider.core.clock import as_seconds
from offsider.core.errors import InvalidJob, InvalidOptions
from offsider.core.options import (
    CHARACTERISTICS,
    FUNCTIONS,
    JobDeclaration,
    check_declaration,
    check_options,
    wire_options,
)
from offsider.jobs.chunk import CHUNK_SECONDS, Call, function_of_one
from offsider.jobs.loadable import module_name, obstacle
from offsider.jobs.signature import JobSignature
from offsider.runtime.context import JobContext

if TYPE_CHECKING:
    from offsider.jobs.codec import AnnotationCodec, ResultCodec

logger = logging.getLogger("offsider")

ONLY_DECLARED = frozenset(
    {
        *("name", "retry_in", "on_exhausted", "shared_with_ruby", "big_payload", "codec", "isolated"),
        *("chunk", "chunk_seconds"),
        *CHARACTERISTICS,
        *FUNCTIONS,
    }
)

_CHUNK = {"chunk", "chunk_seconds"}
_CACHE = type(functools.cache(len))


class Declared:
    """One declared job. Created by ``@job`` and by subclasses of ``Job``.

    Args:
        target: the declared function or class; it has a module, a qualified name and a source location.
        run: the function to run, or the class's ``perform``.
        declaration: the options as written; they are checked at the first push or at launch, when the
            installed extensions are known.
        make: creates the object whose ``perform`` runs; None for functions.

    Attributes:
        name: the stored name.
        aliases: former names, also registered.
        options: the declared options that a push may have too.
        declared_queue, declared_retry_queue, declared_server: as declared; without, None for the queue, else empty.
        wait_replicas, after_commit: of its pushes, unless they have their own.
        functions: the options of extensions that a worker evaluates, by name.
        retry_in: ``retry_in(count, error, payload)``, or None.
        on_exhausted: ``on_exhausted(payload, error)``, or None.
        shared_with_ruby: Ruby pushes or runs it too.
        big_payload: its payloads may be large.
        isolated: it runs in a process of its own.
        chunk: the maximum number of jobs in one call of the function; 0 for a job that runs by itself.
        is_async: it is an ``async def``; a plain function may return a coroutine, too.
        obstacle: why no worker can load it, and what to do; empty if one can, and after the warning.
    """

    def __init__(
        self,
        target: Callable[..., Any],
        run: Callable[..., Any],
        declaration: JobDeclaration,
        make: Callable[[JobContext | None], object] | None = None,
    ) -> None:
        named: Any = target
        if not (callable(named) and getattr(named, "__qualname__", None) and getattr(named, "__module__", None)):
            raise InvalidJob(
                f"@job takes a function, got an object of the class {type(named).__qualname__}, which has no name: "
                "declare a function with def that calls it"
            )
        self.target = target
        self.module = module_name(target.__module__, run)
        self.qualname = target.__qualname__
        own_name = f"{self.module}.{self.qualname}"
        said: object = declaration.get("name", own_name)
        names = cast("list[str]", [*said] if isinstance(said, list | tuple) else [said]) or [""]
        self.name, self.aliases = names[0], tuple(names[1:])
        if not self.name:
            raise InvalidOptions(f"{own_name}: a name must be a string that is not empty, got {self.name!r}")
        given = cast("dict[str, Any]", declaration)
        self.options = {key: value for key, value in given.items() if key not in ONLY_DECLARED}
        self.declared_queue: str | None = self.options.get("queue")
        self.declared_retry_queue = str(self.options.get("retry_queue", ""))
        self.declared_server = str(self.options.get("server", ""))
        self.wait_replicas: int = self.options.get("wait_replicas", 0)
        self.after_commit: bool | str | None = self.options.get("after_commit")
        self.functions = {key: value for key, value in given.items() if key in FUNCTIONS}
        self.retry_in: Callable[..., Any] | None = declaration.get("retry_in")
        self.on_exhausted: Callable[..., Any] | None = declaration.get("on_exhausted")
        self.shared_with_ruby = bool(declaration.get("shared_with_ruby"))
        self.big_payload = bool(declaration.get("big_payload"))
        self.isolated = bool(declaration.get("isolated"))
        self.chunk: int = given.get("chunk", 0)
        self._declaration = given
        self._run = run
        self._make = make
        self._of_one = function_of_one(self.name, run, given, self.place) if _CHUNK & given.keys() else run
        self.signature = JobSignature(self.name, self._of_one, is_method=make is not None)
        self.is_async = inspect.iscoroutinefunction(run)
        self.obstacle = "" if "name" in declaration else obstacle(self.module, self.qualname)
        self._wire: dict[str, Any] | None = None
        self._codec = self._codec_named(given.get("codec"))
        self._accepted_by: weakref.WeakSet[Config] = weakref.WeakSet()
        inner = inspect.unwrap(run)
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            raise InvalidJob(
                f"{self.name} contains yield, so it is a generator, and a worker would never run its body; remove the "
                f"yield, or enqueue a job for each step ({self.place})"
            )
        cache = inspect.unwrap(run, stop=lambda each: isinstance(each, _CACHE))
        if cache is not inner and inspect.iscoroutinefunction(inner):
            raise InvalidJob(
                f"{self.name}: functools.lru_cache keeps the coroutine of the first run, which no other run can await; "
                f"cache the result inside of the job ({self.place})"
            )
        if make is None:
            self._refuse_what_needs_an_object()
        for parameter in self.signature.parameters:
            # FastAPI is not imported for this.
            if type(parameter.default).__module__ == "fastapi.params":
                raise InvalidJob(
                    f"{self.name}: the parameter {parameter.name} is a dependency of FastAPI: place @inject of "
                    f"offsider.fastapi below @job ({self.place})"
                )
        if self.isolated and self.is_async:
            raise InvalidJob(
                f"{self.name} is isolated, so it must be a plain function: call asyncio.run in it ({self.place})"
            )
        if self.shared_with_ruby and self.signature.keyword_only:
            raise InvalidOptions(
                f"{self.name} is shared with Ruby, which would drop keyword-only arguments silently: "
                f"make {', '.join(self.signature.keyword_only)} positional"
            )

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    def _refuse_what_needs_an_object(self) -> None:
        first = next((parameter.name for parameter in self.signature.parameters), "")
        if isinstance(self.target, type):
            kind = "a class"
        elif first in {"self", "cls"} and "." in self.qualname.rpartition("<locals>.")[2]:
            kind = "a method, and a worker has no object to call it on"
        else:
            return
        raise InvalidJob(
            f"{self.name} is {kind}: declare a function, or derive a class with the method perform from offsider.Job "
            f"instead of using @job ({self.place})"
        )

    @property
    def place(self) -> str:
        """The source location of the declaration, for messages."""
        code = getattr(inspect.unwrap(self._run), "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        return f"{self.module}.{self.qualname}{where}"

    def is_same_as(self, other: Declared) -> bool:
        """Whether both have the same source location: the module was reloaded, or also runs as ``__main__``."""
        return (self.module, self.qualname) == (other.module, other.qualname)

    @property
    def characteristics(self) -> Characteristics:
        """The declared characteristics. Call `check` first, which rejects invalid values."""
        return self._characteristics

    @cached_property
    def _characteristics(self) -> Characteristics:
        return Characteristics.of(self._declaration)

    @cached_property
    def signatures(self) -> tuple[str | None, ...]:
        """The ``signature`` values of payloads for these parameters: their digest, or None."""
        return (self.signature.digest, None)

    # Running it

    def make(self, context: JobContext | None = None) -> object:
        """Create the object whose ``perform`` runs in ``context``; None for functions."""
        return self._make(context) if self._make else None

    def perform(self, instance: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run it. Returns the result, or the coroutine of an ``async def`` job, which the caller must await.

        Only the returned object shows that a job is ``async def``: decorators can hide it.
        """
        if self._codec is not None:
            args, kwargs = self._codec.decode(args, kwargs)
        return self._run(*args, **kwargs) if self._make is None else self._run(instance, *args, **kwargs)

    def call_of(self, job: JobContext) -> Call[Any]:
        """Return what the function of a chunk gets for one job. Raises InvalidArguments."""
        self.signature.check_fits(job.args, job.kwargs)
        return Call(tuple(self.decoded(job.args, job.kwargs)[0]), job)

    def perform_chunk(self, calls: list[Call[Any]]) -> Any:
        """Run the function of a chunk. Returns the coroutine of an ``async def``, which the caller must await."""
        result = self._run(calls)
        if not self.is_async:
            self.check_ran(result)
        return result

    @property
    def chunk_seconds(self) -> float:
        """How long the first job of a chunk waits for others."""
        return as_seconds(self._declaration.get("chunk_seconds", CHUNK_SECONDS), "chunk_seconds")

    def check_ran(self, result: object) -> None:
        """Check the result of a run. Raises InvalidJob if the result shows that the body did not run."""
        kind = type(result)
        # The work of an asyncio.Future was started elsewhere.
        lazy = hasattr(kind, "__await__") and not hasattr(kind, "_asyncio_future_blocking")
        if lazy or kind in {GeneratorType, AsyncGeneratorType}:
            raise InvalidJob(
                f"{self.name} returned an object of the class {kind.__qualname__}, whose body has not run: use it or "
                f"await it inside of the job ({self.place})"
            )

    def decoded(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return stored arguments with the types that the job gets."""
        return (args, kwargs) if self._codec is None else self._codec.decode(args, kwargs)

    # Pushing it

    def warn_once(self) -> None:
        """Log its obstacle, unless a test pushes it."""
        if test_mode.wants_advice():
            why, self.obstacle = self.obstacle, ""
            logger.warning(
                "workers may not find job %s: %s; an explicit name= ends this warning",
                self.name,
                why,
                extra={"fields": {"class": self.name}},
            )

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments in stored form. Raises InvalidArguments."""
        bound = self.signature.bind(args, kwargs)
        return bound if self._codec is None else self._codec.encode(*bound)

    def fits(self, fewest: int, most: int) -> bool:
        """Return whether so many positional arguments, without keyword arguments, are stored as they are."""
        return self._codec is None and self.signature.fits(fewest, most)

    def parameter_name(self, position: int) -> str:
        return self.signature.parameter_name(position)

    def stored_options(self, config: Config) -> Mapping[str, Any]:
        """Return the declared options in stored form. Raises InvalidOptions for an invalid option."""
        if config not in self._accepted_by:
            self.check(config)
        if self._wire is None:
            self._wire = wire_options(self.options)
        return self._wire

    def origin(self, config: Config) -> Mapping[str, str]:
        """Return the payload keys of the pushing program: digest of the signature, and version."""
        version = app_version(config.client.app_version)
        return {"signature": self.signature.digest} | ({"app_version": version} if version else {})

    def check(self, config: Config) -> None:
        """Check the declaration against ``config`` and its extensions.

        Raises:
            InvalidOptions: an option is unknown or invalid; the message names the job.
        """
        names: list[Any] = [self.name, *self.aliases]
        if not all(isinstance(name, str) and name for name in names):
            raise InvalidOptions(f"{self.place}: a name must be a string that is not empty, or a list of them")
        if "codec" not in self._declaration:
            self._codec = self._codec_named(config.jobs.get("codec"))
        check_declaration(self._declaration, job_name=self.name)
        check_all_options({**self.options, **self.functions}, config, job_name=self.name)
        self._accepted_by.add(config)

    def result_codec(self, function: Callable[..., Any]) -> ResultCodec | None:
        """Return what converts the result of a function that the job calls as a step; None without a codec."""
        return None if self._codec is None else self._codec.of_result(self.name, function)

    def _codec_named(self, codec: object) -> AnnotationCodec | None:
        if codec is None:
            return None
        if codec != "annotations":
            raise InvalidOptions(f'{self.name}: codec must be "annotations" or None, got {codec!r}')
        from offsider.jobs.codec import AnnotationCodec  # it needs msgspec

        return AnnotationCodec(self.name, self._of_one, self.signature.parameters)


def check_all_options(options: Mapping[str, Any], config: Config, *, job_name: str) -> None:
    """Check options, including those of extensions. Raises InvalidOptions."""
    check_options(options, job_name=job_name, known_extra=config.job_options)
    check_installed(options, config.outbox, job_name=job_name)
    for key, check in config.job_options.items():
        for place in (options, options.get("extra", {})):
            if key in place:
                _check_extra(job_name, key, place[key], check)


def _check_extra(job_name: str, key: str, value: object, check: Callable[[object], object]) -> None:
    try:
        check(value)
    except ValueError as error:
        raise InvalidOptions(f"{job_name}: {key}: {error}") from error
