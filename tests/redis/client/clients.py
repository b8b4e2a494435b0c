"""Pushes of coroutines, used like those of blocking code, so that a test holds for both."""

import asyncio

from offsider.client import Client
from offsider.config.config import Config


def config_for(url: str) -> Config:
    config = Config()
    config.redis.url = url
    return config


class Awaited:
    """A client whose pushes are awaited."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def _run(self, method, *args, **kwargs):
        async def in_a_loop():
            client = Client(self.config)
            try:
                return await getattr(client, method)(*args, **kwargs)
            finally:
                client.close()

        return asyncio.run(in_a_loop())

    def push(self, *args, **kwargs):
        return self._run("apush", *args, **kwargs)

    def push_bulk(self, *args, **kwargs):
        return self._run("apush_bulk", *args, **kwargs)

    def close(self):
        pass
