"""The two clients behind one face, so that a test holds for both."""

import asyncio

from offsider.client import AsyncClient
from offsider.config.config import Config


def config_for(url: str) -> Config:
    config = Config()
    config.redis.url = url
    return config


class Awaited:
    """The asynchronous client, used like the other one."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def _run(self, method, *args, **kwargs):
        async def in_a_loop():
            client = AsyncClient(self.config)
            try:
                return await getattr(client, method)(*args, **kwargs)
            finally:
                await client.close()

        return asyncio.run(in_a_loop())

    def push(self, *args, **kwargs):
        return self._run("push", *args, **kwargs)

    def push_bulk(self, *args, **kwargs):
        return self._run("push_bulk", *args, **kwargs)

    def close(self):
        pass
