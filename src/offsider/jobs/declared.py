"""A declared job as the house knows it: its stored name, its options, its signature, and how to run it."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from offsider.core.characteristics import CHARACTERISTICS, Characteristics, check_characteristics
from offsider.core.errors import InvalidJob, InvalidOptions
from offsider.core.options import JobDeclaration, check_options, wire_options
from offsider.jobs.signature import JobSignature
from offsider.wiring.app_version import app_version
from offsider.wiring.config import Config
from offsider.wiring.context import JobContext

ONLY_DECLARED = frozenset(
    {
        *("name", "aliases", "retry_in", "on_exhausted", "client", "shared_with_ruby", "big_payload"),
        *CHARACTERISTICS,
    }
)


class Declared:
    """One declared job. Made by ``@job`` and by the class line of a ``Job``.

    Args:
        target: what was declared; it has a module, a qualified name and a place in a file.
        run: what runs: the function, or the class's ``perform``.
        declaration: the options as written; they are checked at the first push or at launch, when the
            installed extensions are known.
        make: gives the object whose ``perform`` runs; None for functions.

    Attributes:
        name: the stored name.
        aliases: older names under which it is found too.
        options: the declared options that a push may have as well.
        retry_in: ``retry_in(count, error, payload)``, or None.
        on_exhausted: ``on_exhausted(payload, error)``, or None.
        client: the client that pushes it, or a function that gives it, or None.
        shared_with_ruby: Ruby pushes or runs it too.
        big_payload: its payloads may be large.
    """

    def __init__(
        self,
        target: Callable[..., Any],
        run: Callable[..., Any],
        declaration: JobDeclaration,
        make: Callable[[JobContext | None], object] | None = None,
    ) -> None:
        self.target = target
        self.module = module_name(target.__module__)
        self.qualname = target.__qualname__
        own_name = f"{self.module}.{self.qualname}"
        self.name = declaration.get("name", own_name)
        if not self.name:
            raise InvalidOptions(f"{own_name}: a name must be a string that is not empty, got {self.name!r}")
        self.aliases = tuple(declaration.get("aliases", ()))
        given = cast("dict[str, Any]", declaration)
        self.options = {key: value for key, value in given.items() if key not in ONLY_DECLARED}
        self.retry_in: Callable[..., Any] | None = declaration.get("retry_in")
        self.on_exhausted: Callable[..., Any] | None = declaration.get("on_exhausted")
        self.client: Any = declaration.get("client")
        self.shared_with_ruby = bool(declaration.get("shared_with_ruby"))
        self.big_payload = bool(declaration.get("big_payload"))
        self._declaration = given
        self.signature = JobSignature(self.name, run, is_method=make is not None)
        self._run = run
        self._make = make
        self._wire: dict[str, Any] | None = None
        self._accepted_by: weakref.WeakSet[Config] = weakref.WeakSet()
        if inspect.isgeneratorfunction(run) or inspect.isasyncgenfunction(run):
            raise InvalidJob(
                f"{self.name} has a yield, which makes it a generator: a run would only make the generator, and never "
                f"reach its body; return nothing, or enqueue a job of its own for each step ({self.place})"
            )
        if self.shared_with_ruby and self.signature.keyword_only:
            raise InvalidOptions(
                f"{self.name} is shared with Ruby, which would drop keyword-only arguments silently: "
                f"make {', '.join(self.signature.keyword_only)} positional"
            )

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    @property
    def place(self) -> str:
        """Where it was declared, for people."""
        code = getattr(inspect.unwrap(self._run), "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        return f"{self.module}.{self.qualname}{where}"

    def is_same_as(self, other: Declared) -> bool:
        """Whether both come from the same lines: a module that was reloaded, or run as ``__main__`` as well."""
        return (self.module, self.qualname) == (other.module, other.qualname)

    @property
    def characteristics(self) -> Characteristics:
        """What it says of itself. To be asked for after `check`, which finds impossible values."""
        return Characteristics.of(self._declaration)

    @property
    def declared_queue(self) -> str | None:
        """The queue that its declaration names, if any."""
        return self.options.get("queue")

    @property
    def declared_server(self) -> str:
        """The server that its declaration names; empty without one."""
        return str(self.options.get("server", ""))

    @cached_property
    def signatures(self) -> tuple[str | None, ...]:
        """What a payload says whose arguments were made for these parameters: their digest, or nothing at all."""
        return (self.signature.digest, None)

    # Running it

    def make(self, context: JobContext | None = None) -> object:
        """The object whose ``perform`` runs in ``context``; None for functions."""
        return self._make(context) if self._make else None

    def check_fits(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise InvalidArguments, naming both, when stored arguments do not fit the signature."""
        self.signature.check_fits(args, kwargs)

    def perform(self, instance: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run it: its result, or the coroutine of an ``async def`` job, which the caller runs to its end.

        Whether it is one shows in what comes back, and only there: decorators hide it from the function.
        """
        return self._run(*args, **kwargs) if self._make is None else self._run(instance, *args, **kwargs)

    # Pushing it

    @property
    def wait_replicas(self) -> int:
        """How many replicas a push waits for, unless it says otherwise."""
        return int(self.options.get("wait_replicas", 0))

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments in stored form. Raises InvalidArguments."""
        return self.signature.bind(args, kwargs)

    def parameter_name(self, position: int) -> str:
        return self.signature.parameter_name(position)

    def stored_options(self, config: Config) -> Mapping[str, Any]:
        """The declared options as a payload holds them. Raises InvalidOptions at the first push of a bad one."""
        if config not in self._accepted_by:
            self.check(config)
        if self._wire is None:
            self._wire = wire_options(self.options)
        return self._wire

    def origin(self, config: Config) -> Mapping[str, str]:
        """What a payload says of the program that pushed it: the parameters that it knows, and its version."""
        version = app_version(config.client.app_version)
        return {"signature": self.signature.digest} | ({"app_version": version} if version else {})

    def check(self, config: Config) -> None:
        """Check the declaration against what ``config`` and its extensions know.

        Raises:
            InvalidOptions: an option is unknown or impossible; the message names the job.
        """
        names: list[Any] = [self.name, *self.aliases]
        if not all(isinstance(name, str) and name for name in names):
            raise InvalidOptions(f"{self.place}: name and aliases must be strings that are not empty")
        for option, value in (("retry_in", self.retry_in), ("on_exhausted", self.on_exhausted)):
            if value is not None and not callable(value):
                raise InvalidOptions(f"{self.name}: {option} must be a function, got {value!r}")
        for option in ("shared_with_ruby", "big_payload"):
            if not isinstance(self._declaration.get(option, False), bool):
                raise InvalidOptions(f"{self.name}: {option} must be True or False, got {self._declaration[option]!r}")
        check_characteristics(self._declaration, job_name=self.name)
        check_all_options(self.options, config, job_name=self.name)
        self._accepted_by.add(config)


def check_all_options(options: Mapping[str, Any], config: Config, *, job_name: str) -> None:
    """Check options by our rules, and those of extensions by theirs. Raises InvalidOptions."""
    check_options(options, job_name=job_name, known_extra=config.job_options)
    for key, check in config.job_options.items():
        for place in (options, options.get("extra", {})):
            if key in place:
                _check_extra(job_name, key, place[key], check)


def _check_extra(job_name: str, key: str, value: object, check: Callable[[object], None]) -> None:
    try:
        check(value)
    except ValueError as error:
        raise InvalidOptions(f"{job_name}: {key}: {error}") from error


def module_name(module: str) -> str:
    """The name under which a worker will import the module.

    A program that is started as a script runs under the name ``__main__``, which no worker can import;
    its jobs are stored under the name of its file.
    """
    if module != "__main__":
        return module
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    path = getattr(main, "__file__", None)
    return Path(path).stem if path else module
