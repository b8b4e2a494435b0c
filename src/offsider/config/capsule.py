"""A capsule: a group of worker threads with its own queues, middleware and connections."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from offsider.config.containers import Freezable
from offsider.config.routing import EVERY, QueueSpec, parse_all
from offsider.config.settings import CapsuleSection
from offsider.core.errors import ConfigurationError
from offsider.core.wording import counted
from offsider.runtime.middleware import ClientChain, ServerChain

# Connections in addition to one per thread: one for the blocking pop of the leading thread, one for the ticker, one in
# reserve.
SPARE_CONNECTIONS = 3
DEFAULT_QUEUE = "default"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class _Plan(NamedTuple):
    """Values derived from the configured and the discovered queues; computed again when these change."""

    made_from: tuple[object, ...]
    specs: tuple[QueueSpec, ...]
    mode: str
    all_queues: bool
    names: tuple[str, ...]
    draws: tuple[str, ...]


class Capsule(Freezable):
    """The concurrency, queues and middleware of a group of worker threads.

    1. `Config` creates it: ``default`` from the section ``worker``, others by ``config.capsule(...)``.
    2. Its settings can change until the freeze.
    3. While the worker runs, `discover` updates the queues of a capsule with ``*``.

    Its chains are copies of the config's, made at their first use or at the freeze.
    """

    def __init__(
        self,
        name: str,
        settings: CapsuleSection,
        client_middleware: ClientChain,
        server_middleware: ServerChain,
    ) -> None:
        if not _NAME.fullmatch(name):
            # The name is part of a Redis key, whose parts are separated by ":".
            raise ConfigurationError(f"a capsule name may contain only letters, digits and _ . -, got {name!r}")
        self.name = name
        self.settings = settings
        self._copied = client_middleware, server_middleware
        self._lock = threading.Lock()
        self._chains: tuple[ClientChain, ServerChain] | None = None
        self._found: tuple[str, ...] = ()
        self._plan: _Plan | None = None

    @property
    def concurrency(self) -> int:
        """Number of threads that run jobs."""
        return self.settings.concurrency

    @property
    def specs(self) -> tuple[QueueSpec, ...]:
        """The configured queues, including ``*``."""
        return self._planned().specs

    @property
    def queues(self) -> list[str]:
        """The queues that are served now, with the discovered ones in the place of ``*``."""
        return list(self._planned().names)

    @property
    def all_queues(self) -> bool:
        """Whether ``*`` is among the configured queues: then the worker calls `discover` regularly."""
        return self._planned().all_queues

    @property
    def mode(self) -> str:
        """``"strict"``, ``"weighted"`` or ``"random"``."""
        return self._planned().mode

    @property
    def client_middleware(self) -> ClientChain:
        """Middleware around pushes by jobs of this capsule."""
        return self._own_chains()[0]

    @property
    def server_middleware(self) -> ServerChain:
        """Middleware around the jobs that run here."""
        return self._own_chains()[1]

    @property
    def connections(self) -> int:
        """Pool size of this capsule: one connection per thread and SPARE_CONNECTIONS more."""
        return self.concurrency + SPARE_CONNECTIONS

    def discover(self, names: Iterable[str]) -> None:
        """Serve these queues in the place of ``*``; without ``*``, do nothing."""
        if self.all_queues:
            self._found = tuple(sorted(names))

    def fetch_order(self, random: Random) -> list[str]:
        """Return the order of the queues for one fetch; call it for each fetch."""
        plan = self._planned()
        if plan.mode == "strict":
            return list(plan.names)
        draws = list(plan.draws)
        random.shuffle(draws)
        return list(dict.fromkeys(draws))

    def weights(self) -> dict[str, int]:
        """Return the weight of each queue, for the ``info`` of the process."""
        given = {spec.name: spec.weight for spec in self.specs}
        return {name: given.get(name, given.get(EVERY, 0)) for name in self.queues}

    def freeze(self) -> None:
        for part in (self.settings, *self._own_chains()):
            part.freeze()

    def thaw(self) -> None:
        """Accept changes again. Its chains follow the config's if they are equal."""
        client, server = self._own_chains()
        for part in (self.settings, client, server):
            part.thaw()
        if list(client) == list(self._copied[0]) and list(server) == list(self._copied[1]):
            self._chains = None

    def _own_chains(self) -> tuple[ClientChain, ServerChain]:
        with self._lock:
            if self._chains is None:
                client, server = self._copied
                where = f"capsule {self.name}"
                self._chains = (
                    client.copy(what=f"{where}: client_middleware"),
                    server.copy(what=f"{where}: server_middleware"),
                )
            return self._chains

    def _planned(self) -> _Plan:
        # Concurrent threads may compute equal plans; a single assignment publishes each, so no lock is needed.
        made_from = (self.settings.queues, self.settings.mode, self._found)
        plan = self._plan
        if plan is None or plan.made_from != made_from:
            plan = self._plan = self._make_plan(made_from)
        return plan

    def _make_plan(self, made_from: tuple[object, ...]) -> _Plan:
        specs = parse_all(self.settings.queues) or (QueueSpec(DEFAULT_QUEUE),)
        mode = _mode_by_weights(specs) if self.settings.mode == "auto" else self.settings.mode
        served = _expand(specs, self._found)
        # Beside weighted queues, a queue without a weight has weight 1, as in Sidekiq.
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
        queues = ", ".join(map(str, self.specs))
        return f"<Capsule {self.name}: {counted(self.concurrency, 'thread')}, queues {queues}, {self.mode}>"


def _mode_by_weights(specs: Iterable[QueueSpec]) -> str:
    weights = {spec.weight for spec in specs}
    if weights == {0}:
        return "strict"
    return "random" if weights == {1} else "weighted"


def _expand(specs: Iterable[QueueSpec], found: Iterable[str]) -> list[QueueSpec]:
    """Return the configured queues, with the discovered ones in the place of ``*``."""
    named = {spec.name for spec in specs}
    others = [name for name in found if name not in named]
    expanded: list[QueueSpec] = []
    for spec in specs:
        expanded += [QueueSpec(name, spec.weight) for name in others] if spec.name == EVERY else [spec]
    return expanded
