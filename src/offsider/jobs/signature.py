"""Binds arguments to a job's signature at the push, and checks them again before the run.

Positional arguments are stored as a list, as in Sidekiq. Keyword arguments are bound to their positions; only
keyword-only arguments are stored by name.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from offsider.core.errors import InvalidArguments, InvalidJob
from offsider.core.wording import counted

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_DIGEST_CHARACTERS = 8
#: Parameter kinds as manifests name them.
KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.VAR_POSITIONAL: "rest",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_KEYWORD: "keywords",
}


class JobSignature:
    """The parameters of one job.

    Args:
        name: job name for messages.
        function: the function to run.
        is_method: whether the first parameter is ``self``.

    Attributes:
        parameters: the parameters without ``self``.
        keyword_only: names of keyword-only parameters, which are stored by name.
    """

    def __init__(self, name: str, function: Callable[..., Any], *, is_method: bool) -> None:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # of a function in C
            raise InvalidJob(f"{name}: its parameters are unknown: declare a function with def that calls it") from None
        parameters = list(signature.parameters.values())
        own = parameters[:1] if is_method else []
        if is_method and not (own and own[0].kind in _POSITIONAL):
            raise InvalidJob(f"{name}: perform needs its object as first parameter: def perform(self, ...)")
        parameters = parameters[len(own) :]
        #: The name of ``self``, which no keyword argument may have, unless it is declared as positional-only.
        self._own = next((each.name for each in own if each.kind is each.POSITIONAL_OR_KEYWORD), None)
        self.parameters = parameters
        self._signature = signature.replace(parameters=parameters)
        self._name = name
        positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
        self._positions = [parameter.name for parameter in positional]
        self._rest = next(
            (parameter.name for parameter in parameters if parameter.kind is parameter.VAR_POSITIONAL), ""
        )
        #: The numbers of positional arguments that fit without keyword arguments. A comparison with them is ten times
        #: as fast as binding, and sufficient for most calls. `bind` and `check_fits` compare in place: they run at each
        #: push and each run, and a call of `fits` would slow `bind` down by half.
        self._fewest = sum(parameter.default is parameter.empty for parameter in positional)
        self._most = sys.maxsize if self._rest else len(positional)
        self.keyword_only = [
            parameter.name
            for parameter in parameters
            if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
        ]
        if any(
            parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
            for parameter in parameters
        ):
            self._most = -1

    def __str__(self) -> str:
        return f"{self._name}{self._signature}"

    @cached_property
    def digest(self) -> str:
        """The digest in payloads that identifies the parameters; see `digest_of`."""
        return digest_of(
            (parameter.name, KINDS[parameter.kind], is_required(parameter)) for parameter in self.parameters
        )

    def fits(self, fewest: int, most: int) -> bool:
        """Return whether between ``fewest`` and ``most`` positional arguments suffice."""
        return self._fewest <= fewest and most <= self._most

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments in stored form: a positional list, and keyword-only ones by name.

        A skipped parameter before a keyword argument gets its default.

        Raises:
            InvalidArguments: they do not match; the message names the job and the mismatch.
        """
        if not kwargs and self._fewest <= len(args) <= self._most:
            return list(args), {}
        try:
            bound = self._bound(args, kwargs)
        except TypeError as error:
            raise InvalidArguments(f"{self._name}: {error}; the job is {self}") from None
        return self._stored(bound)

    def check_fits(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise InvalidArguments if stored arguments do not match the signature.

        The message contains their number and never their values: it appears in logs and on web pages.
        """
        if not kwargs and self._fewest <= len(args) <= self._most:
            return
        try:
            self._bound(args, kwargs)
        except TypeError as error:
            # Unknown names come from the payload, and may contain sensitive data.
            known = "".join(f", {name}" for name in kwargs if name in self._signature.parameters)
            unknown = sum(name not in self._signature.parameters for name in kwargs)
            names = known + (f", {counted(unknown, 'unknown name')}" if unknown else "")
            why = counted(unknown, "unexpected keyword argument") if unknown else str(error)
            raise InvalidArguments(
                f"{self._name}: the stored arguments ({len(args)} positional{names}) do not match the signature "
                f"{self}: {why}"
            ) from None

    def parameter_name(self, position: int) -> str:
        """Return the name of the parameter at ``position``; ``*rest`` collects surplus arguments."""
        if position < len(self._positions):
            return self._positions[position]
        return f"{self._rest or 'args'}[{position - len(self._positions)}]"

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        bound = self._signature.bind(*args, **kwargs)
        if self._own in kwargs:
            raise TypeError(f"{self._own!r} is the object itself; declare perform({self._own}, /, ...) to accept it")
        return bound

    def _stored(self, bound: inspect.BoundArguments) -> tuple[list[Any], dict[str, Any]]:
        given = [index for index, name in enumerate(self._positions) if name in bound.arguments]
        for name in self._positions[: given[-1] if given else 0]:
            bound.arguments.setdefault(name, self._signature.parameters[name].default)
        return list(bound.args), bound.kwargs


def is_required(parameter: inspect.Parameter) -> bool:
    """Whether a call must pass it."""
    collects = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not collects


def digest_of(parameters: Iterable[tuple[str, str, bool]]) -> str:
    """Return eight hex digits for the names, kinds and required flags of parameters, in order.

    Types and defaults are excluded: they never decide whether arguments match.
    """
    told = json.dumps([list(parameter) for parameter in parameters], separators=(",", ":"))
    return hashlib.sha256(told.encode()).hexdigest()[:_DIGEST_CHARACTERS]
