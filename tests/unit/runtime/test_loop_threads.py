"""Blocking calls of event loops."""

import asyncio
import threading
from functools import partial

import pytest

from offsider.runtime.loop_threads import LoopThreads


def test_a_call_whose_turn_does_not_come_in_time_fails_and_never_runs():
    threads, may_end, calls = LoopThreads(1), threading.Event(), []

    async def run():
        busy = asyncio.ensure_future(threads.run(partial(may_end.wait, 60), 0.01, TimeoutError))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await threads.run(partial(calls.append, 1), 0.05, TimeoutError)
        may_end.set()
        return await busy

    assert asyncio.run(run())
    assert asyncio.run(threads.run(lambda: 1)) == 1
    assert calls == []
