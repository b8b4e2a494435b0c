"""One server of a configuration at run time: its connections, and the objects that the process shares for it.

`Config` contains values. `Installation.of` returns the objects that the process has created from them for one
server; `Installation.for_server` returns the installation of another server in the same configuration.
"""

from __future__ import annotations

from typing import TypeVar

from offsider.config.config import Config
from offsider.config.containers import Shared
from offsider.config.default import default_config
from offsider.core.errors import ConfigurationError
from offsider.core.job_id import JobResults
from offsider.runtime.leader import Leadership
from offsider.runtime.loop_threads import LoopThreads
from offsider.storage.redis import Redis

T = TypeVar("T")


class Installation:
    """One server of a configuration. Do not construct it: `of` returns the same object each time.

    Attributes:
        config: the configuration.
        name: the name of the server.
        settings: the section of that server; ``config.redis`` is the section of the server that the process works for.
        shared: objects that all users of this server share, such as pools and clients.
    """

    def __init__(self, config: Config, server: str) -> None:
        self.config = config
        self.name = server
        self.settings = config.server_settings(server)
        self.shared = Shared()

    @classmethod
    def of(cls, config: Config | Installation | None = None, server: str = "") -> Installation:
        """Return the installation of a configuration.

        Args:
            config: by default the configuration of this process. An installation is returned unchanged.
            server: by default the server that the process works for.

        Raises:
            ConfigurationError: there is no server of this name.
        """
        if config is None:
            config = default_config()
        elif isinstance(config, Installation):
            return config.for_server(server) if server else config
        server = server or config.server
        # Of several threads, all get what the first one has set; an installation without pools costs nothing.
        made = config.shared.get(_Installations, _Installations)
        return made.get(server) or made.setdefault(server, cls(config, server))

    @classmethod
    def renewed(cls, config: Config) -> Installation:
        """Return the installation of a configuration whose servers have changed, without its former pools."""
        cls.of(config).close()
        config.shared.get(_Installations, _Installations).clear()
        return cls.of(config)

    def for_server(self, name: str) -> Installation:
        """Return the installation of another server of the same configuration.

        Raises:
            ConfigurationError: there is no server of this name.
        """
        return Installation.of(self.config, name)

    def make_redis(self, size: int) -> Redis:
        """Make a pool of at most ``size`` connections to this server; it connects at the first call."""
        return Redis(self.settings, size=size)

    @property
    def redis(self) -> Redis:
        """The shared pool, for clients, the inspector and all others without a separate pool; thread-safe.

        It has ``redis.client_pool_size`` connections.
        """
        return self.shared.get(Redis, lambda: self.make_redis(self.settings.client_pool_size))

    @property
    def loop_threads(self) -> LoopThreads:
        """Threads for the blocking calls of event loops on the shared pool; blocking callers keep a connection."""
        size = self.settings.client_pool_size
        return self.shared.get(LoopThreads, lambda: LoopThreads(max(1, size - 1)))

    @property
    def results(self) -> JobResults:
        """Reads the states and results of the jobs of this server. Raises ConfigurationError without an extension."""
        if self.config.results is None:
            raise ConfigurationError(
                "states and results of jobs need an extension: call config.use(Results()), imported from "
                "offsider.ext.results, in a function with @configure_client"
            )
        return self.config.results(self)

    def of_all_servers(self, kind: type[T]) -> list[T]:
        """Return the shared objects of this type, of all servers that have one."""
        made = [*self.config.shared.get(_Installations, _Installations).values()]
        found = (each.shared.peek(kind) for each in made)
        return [each for each in found if each is not None]

    def close(self) -> None:
        """Close the idle connections of the shared pools of all servers. The pools can be used again."""
        for redis in self.of_all_servers(Redis):
            redis.close()

    @property
    def is_leader(self) -> bool:
        """Whether this process is the leader, by its own clock; another process may become it a moment later."""
        return bool(self.leadership)

    @property
    def leadership(self) -> Leadership:
        """The state behind `is_leader`. The leader of a configuration leads on all its servers."""
        return self.config.shared.get(Leadership, Leadership)


class _Installations(dict[str, Installation]):
    """The installations of one configuration by server."""
