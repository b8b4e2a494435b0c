"""Kinds of setting values: validation, parsing of environment variables, and the text for error messages."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard, cast
from urllib.parse import parse_qs, urlsplit

from offsider.config.queue_spec import parse_all
from offsider.config.routing import Rules
from offsider.core.arguments import is_unicode
from offsider.core.removed import message
from offsider.core.routing_grammar import Query
from offsider.storage.cluster import SCHEMES, plain_urls


@dataclass(frozen=True)
class Kind:
    """The type of a setting.

    Attributes:
        expects: completes the sentence "the setting expects …".
        check: returns the value in its final form; raises ValueError, with or without details, if it is invalid.
        parse: converts the text of an environment variable or an option to a value for `check`.
        secret: whether messages must not contain the value.
    """

    expects: str
    check: Callable[[object], Any]
    parse: Callable[[str], object] = str
    secret: bool = False


def _refuse(detail: str = "") -> ValueError:
    return ValueError(detail)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return _is_whole(value) or isinstance(value, float)


def _items(value: object) -> tuple[object, ...]:
    """Return the items of a list; a single string is a list of one."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple):
        raise _refuse()
    return tuple(cast("tuple[object, ...]", value))


def _kind(
    expects: str,
    accepts: Callable[[Any], bool],
    parse: Callable[[str], object] = str,
    *,
    final: Callable[[Any], Any] = lambda value: value,
    secret: bool = False,
) -> Kind:
    """A kind whose values are those that ``accepts`` returns True for; ``final`` converts them."""

    def check(value: object) -> Any:
        if not accepts(value):
            raise _refuse()
        return final(value)

    return Kind(expects, check, parse, secret=secret)


def _converted(convert: Callable[[str], object]) -> Callable[[str], object]:
    """A parser that leaves text which cannot be converted as it is: `Kind.check` refuses it with the whole message."""

    def parse(text: str) -> object:
        try:
            return convert(text)
        except ValueError:
            return text

    return parse


_INT, _FLOAT = _converted(int), _converted(float)


def whole(minimum: int, maximum: int | None = None, *, or_zero: bool = False) -> Kind:
    """An int within bounds, or 0 if ``or_zero``."""
    bounds = f">= {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    most = math.inf if maximum is None else maximum
    return _kind(
        f"{'0, or ' if or_zero else ''}a whole number {bounds}",
        lambda value: _is_whole(value) and (minimum <= value <= most or (or_zero and value == 0)),
        _INT,
    )


def processes() -> Kind:
    """A number of processes: a whole number, or ``auto`` for one per core."""

    def check(value: object) -> int:
        if value == "auto":
            return _cores()
        if not isinstance(value, int):
            raise _refuse(f"give a number; auto is {_cores()} on this machine")
        if isinstance(value, bool) or not 0 <= value <= _MAX_PROCESSES:
            raise _refuse()
        return value

    return Kind("a whole number >= 0, or auto (one per core)", check, _INT)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def seconds(*, minimum: float = 0.0, above: bool = False) -> Kind:
    """A finite number of seconds, as a float."""
    return _kind(
        f"a number of seconds {'>' if above else '>='} {minimum:g}",
        lambda value: _is_number(value) and minimum <= value < math.inf and not (above and value == minimum),
        _FLOAT,
        final=float,
    )


def share() -> Kind:
    """A fraction above 0 and below 1."""
    return _kind("a number between 0 and 1", lambda value: _is_number(value) and 0 < value < 1, _FLOAT, final=float)


def choice(*words: str, synonyms: dict[str, str] | None = None) -> Kind:
    """One of several words, case-insensitive."""
    meanings = {word: word for word in words} | (synonyms or {})
    return _kind(
        f"one of {', '.join(words)}",
        lambda value: isinstance(value, str) and value.lower() in meanings,
        final=lambda word: meanings[word.lower()],
    )


def log_format(*names: str) -> Kind:
    """One of the log formats; the message about a removed one names its replacement."""
    kind = choice(*names)

    def check(value: object) -> Any:
        if isinstance(value, str) and (gone := message("log format", value)):
            raise _refuse(gone)
        return kind.check(value)

    return Kind(kind.expects, check)


def number_of(*numbers: int) -> Kind:
    """One of several ints."""
    expects = f"one of {', '.join(map(str, numbers))}"
    return _kind(expects, lambda value: _is_whole(value) and value in numbers, _INT)


def text(pattern: str = ".*", expects: str = "a string", *, secret: bool = False) -> Kind:
    """A string that matches a pattern completely."""
    whole_text = re.compile(pattern, re.DOTALL).fullmatch

    def check(value: object) -> str:
        if not isinstance(value, str) or whole_text(value) is None:
            raise _refuse()
        if not is_unicode(value):  # an environment variable may contain any bytes
            raise _refuse("it is not valid UTF-8")
        return value

    return Kind(expects, check, secret=secret)


def names(expects: str = "a list of strings") -> Kind:
    """A tuple of strings; a single string is accepted as a list of one."""

    def check(value: object) -> tuple[str, ...]:
        items = _items(value)
        if not all(isinstance(item, str) and item.strip() for item in items):
            raise _refuse()
        return tuple(str(item).strip() for item in items)

    return Kind(expects, check, lambda value: re.split(r"[,\s]+", value.strip(", \t\n")) if value.strip(", \n") else [])


def _check_address(value: object) -> str:
    if _is_whole(value):
        value = str(value)
    if not isinstance(value, str) or not (found := _ADDRESS.fullmatch(value)):
        raise _refuse()
    if value and int(found["port"]) > _LAST_PORT:
        raise ValueError(f"there is no port above {_LAST_PORT}")
    return value if found["host"] or not value else f"127.0.0.1:{found['port']}"


def _check_queues(value: object) -> tuple[str, ...]:
    return tuple(map(str, parse_all(_items(value))))


def _check_query(value: object) -> str:
    if not isinstance(value, str):
        raise _refuse()
    if value.strip():
        Query.parse(value)
    return value.strip()


def _check_url(value: object) -> str:
    if not isinstance(value, str) or not _URL.fullmatch(value):
        raise _refuse()
    if re.search(r"\s", value):
        raise ValueError("it contains a space or a line break; between the hosts of a Cluster is only a comma")
    plain = plain_urls(value)
    # redis-py uses database 0 if the path is not a number, so the path is checked here. Messages must not contain any
    # part of the URL: an unescaped "/" or "?" in a password moves the rest of it to another part.
    try:
        parts = [urlsplit(url) for url in plain]
        _ = [part.port for part in parts]
    except ValueError:
        raise ValueError(
            "its host and port cannot be read; in a password, write % / ? # @ : as %25 %2F %3F ..."
        ) from None
    first = parts[0]
    databases = parse_qs(first.query, keep_blank_values=True).get("db", [])
    if first.scheme != "unix" and first.path not in ("", "/"):
        databases = [*databases, first.path.removeprefix("/")]
    if value.startswith(SCHEMES) and any(database.strip("0") for database in databases):
        raise ValueError("a Cluster has no database but 0: leave the number out")
    if not all(_DATABASE.fullmatch(database) for database in databases):
        raise ValueError("the database, after the host or in ?db=, is a number, as in redis://localhost:6379/0")
    return value


def _parse_flag(value: str) -> object:
    word = value.strip().lower()
    return {**dict.fromkeys(_YES, True), **dict.fromkeys(_NO, False)}.get(word, value)


_URL = re.compile(r"(rediss?(\+cluster)?|unix)://.+", re.DOTALL)
_MAX_PROCESSES = 1000
_DATABASE = re.compile(r"[0-9]+")
_ADDRESS = re.compile(r"(?:(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+):)?(?P<port>[0-9]{1,5}))?")
_LAST_PORT = 65_535
_YES = ("true", "yes", "on", "1")
_NO = ("false", "no", "off", "0", "")

FLAG = _kind("true or false", lambda value: isinstance(value, bool), _parse_flag)
QUEUES = Kind('a list of queues, each "name", "name,weight" or [name, weight]', _check_queues, str.split)
URL = Kind(
    "a URL that begins with redis://, rediss:// (TLS), unix://, redis+cluster:// or rediss+cluster://",
    _check_url,
    secret=True,
)
ADDRESS = Kind("host:port, or a port alone for 127.0.0.1", _check_address)
QUERY = Kind("a query, as in routing rules", _check_query)
RULES = Kind(
    'a list of rules, each ["query", "queue"] or ["query", "queue", "server"]; JSON in the environment',
    Rules.read,
    _converted(lambda text: json.loads(text or "[]")),
)
