"""A capsule: some threads of a worker with their own queues, middleware and connections."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from offsider.core.errors import ConfigurationError
from offsider.wiring.kept import Kept
from offsider.wiring.middleware import ClientChain, ServerChain
from offsider.wiring.queue_spec import EVERY, QueueSpec, parse_all
from offsider.wiring.settings import CapsuleSection

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config

# What a capsule's threads need beside one connection each: the leader's wait, the ticker, and one in reserve.
SPARE_CONNECTIONS = 3
DEFAULT_QUEUE = "default"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class _Plan:
    """What follows from the configured and the discovered queues, worked out once for each change of them."""

    made_from: tuple[object, ...]
    specs: tuple[QueueSpec, ...]
    mode: str
    all_queues: bool
    names: tuple[str, ...]
    draws: tuple[str, ...]


class Capsule:
    """How many jobs run at a time here, and from which queues.

    1. Made by `Config`: ``default`` from the section ``worker``, others by ``config.capsule(...)``.
    2. Changed until the freeze; then the order of draws is fixed.
    3. While the worker runs, a capsule with ``*`` is told the queues there are by `discover`.

    Its chains are copies of the config's, made when they are first touched, or at the freeze.
    """

    def __init__(
        self,
        name: str,
        settings: CapsuleSection,
        config: Config,
    ) -> None:
        if not _NAME.fullmatch(name):
            # The name is part of a Redis key, with ":" between the parts.
            raise ConfigurationError(f"a capsule's name is letters, digits and _ . -, got {name!r}")
        self.name = name
        self.settings = settings
        self.config = config
        self.kept = Kept()
        self._lock = threading.Lock()
        self._client_middleware: ClientChain | None = None
        self._server_middleware: ServerChain | None = None
        self._redis: Redis | None = None
        self._found: tuple[str, ...] = ()
        self._plan: _Plan | None = None

    @property
    def concurrency(self) -> int:
        """How many jobs run at a time."""
        return self.settings.concurrency

    @concurrency.setter
    def concurrency(self, value: int) -> None:
        self.settings.concurrency = value

    @property
    def specs(self) -> tuple[QueueSpec, ...]:
        """The queues as configured, ``*`` included."""
        return self._planned().specs

    @property
    def queues(self) -> list[str]:
        """The queues that are served now: the named ones, then what was discovered."""
        return list(self._planned().names)

    @queues.setter
    def queues(self, value: Sequence[str]) -> None:
        self.settings.queues = value

    @property
    def all_queues(self) -> bool:
        """Whether ``*`` is among the configured queues: then `discover` is to be called now and then."""
        return self._planned().all_queues

    @property
    def mode(self) -> str:
        """``"strict"``, ``"weighted"`` or ``"random"``."""
        return self._planned().mode

    @property
    def client_middleware(self) -> ClientChain:
        """Around pushes made by jobs of this capsule."""
        self._copy_chains()
        assert self._client_middleware is not None  # noqa: S101  # made one line above
        return self._client_middleware

    @property
    def server_middleware(self) -> ServerChain:
        """Around the jobs that run here."""
        self._copy_chains()
        assert self._server_middleware is not None  # noqa: S101  # made two lines above
        return self._server_middleware

    @property
    def redis(self) -> Redis:
        """The capsule's own pool, made at first use: one connection per thread and three to spare."""
        with self._lock:
            if self._redis is None:
                self._redis = self.config.make_redis(self.concurrency + SPARE_CONNECTIONS)
            return self._redis

    def discover(self, names: Iterable[str]) -> None:
        """Serve these queues too, in the place of ``*``; without ``*`` nothing changes."""
        if self.all_queues:
            self._found = tuple(sorted(names))

    def fetch_order(self, random: Random) -> list[str]:
        """The queues in the order in which to look at them this time; call it anew for each fetch."""
        plan = self._planned()
        if plan.mode == "strict":
            return list(plan.names)
        draws = list(plan.draws)
        random.shuffle(draws)
        return list(dict.fromkeys(draws))

    def weights(self) -> dict[str, int]:
        """Queue to weight, as the process's ``info`` tells it."""
        given = {spec.name: spec.weight for spec in self.specs}
        return {name: given.get(name, given.get(EVERY, 0)) for name in self.queues}

    def freeze(self) -> None:
        self.client_middleware.freeze()
        self.server_middleware.freeze()
        self.settings.freeze()

    def _copy_chains(self) -> None:
        with self._lock:
            if self._client_middleware is None:
                where = f"capsule {self.name}"
                self._client_middleware = self.config.client_middleware.copy(what=f"{where}: client_middleware")
                self._server_middleware = self.config.server_middleware.copy(what=f"{where}: server_middleware")

    def _planned(self) -> _Plan:
        # Threads may get here at once: each works out an equal plan, and one assignment publishes it.
        made_from = (self.settings.queues, self.settings.mode, self._found)
        plan = self._plan
        if plan is None or plan.made_from != made_from:
            plan = self._plan = self._make_plan(made_from)
        return plan

    def _make_plan(self, made_from: tuple[object, ...]) -> _Plan:
        specs = parse_all(self.settings.queues) or (QueueSpec(DEFAULT_QUEUE),)
        mode = _mode_by_weights(specs) if self.settings.mode == "auto" else self.settings.mode
        served = _expand(specs, self._found)
        # A queue without a weight beside weighted ones is drawn like one of weight 1, as in Sidekiq.
        shares = [1 if mode == "random" else max(1, spec.weight) for spec in served]
        return _Plan(
            made_from=made_from,
            specs=specs,
            mode=mode,
            all_queues=any(spec.name == EVERY for spec in specs),
            names=tuple(spec.name for spec in served),
            draws=tuple(spec.name for spec, share in zip(served, shares, strict=True) for _ in range(share)),
        )

    def __repr__(self) -> str:
        return f"<Capsule {self.name}: {self.concurrency} of {', '.join(map(str, self.specs))}, {self.mode}>"


def _mode_by_weights(specs: Iterable[QueueSpec]) -> str:
    weights = {spec.weight for spec in specs}
    if weights == {0}:
        return "strict"
    return "random" if weights == {1} else "weighted"


def _expand(specs: Iterable[QueueSpec], found: Iterable[str]) -> list[QueueSpec]:
    """The configured queues with what was discovered in the place of ``*``."""
    named = {spec.name for spec in specs}
    others = [name for name in found if name not in named]
    expanded: list[QueueSpec] = []
    for spec in specs:
        expanded += [QueueSpec(name, spec.weight) for name in others] if spec.name == EVERY else [spec]
    return expanded
