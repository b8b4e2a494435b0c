"""The dump shows threads and asyncio tasks."""

from __future__ import annotations

import asyncio
import logging
import threading

from offsider.cli.main_loop import dump, task_stacks, thread_stacks


def test_every_thread_is_shown_with_its_name_and_place():
    go = threading.Event()

    def waiting_here():
        go.wait(30)

    thread = threading.Thread(target=waiting_here, name="a-waiting-thread")
    thread.start()
    try:
        texts = list(thread_stacks())
    finally:
        go.set()
        thread.join()
    [text] = [text for text in texts if "a-waiting-thread" in text]
    assert "waiting_here" in text
    assert text.startswith("thread tid=")
    assert len(texts) >= 2


def test_every_task_is_shown():
    async def main():
        async def waits_here():
            await asyncio.sleep(30)

        task = asyncio.create_task(waits_here(), name="job-1")
        await asyncio.sleep(0)
        texts = list(task_stacks([task]))
        task.cancel()
        return texts

    [text] = asyncio.run(main())
    assert text.startswith("asyncio task job-1\n")
    assert "waits_here" in text


class BrokenTask:
    def get_name(self):
        return "broken"

    def get_stack(self):
        raise RuntimeError("changed")


def test_a_task_that_changes_during_the_dump_does_not_stop_it(caplog):
    logger = logging.getLogger("offsider")
    logger.addHandler(caplog.handler)
    try:
        dump([BrokenTask()])
    finally:
        logger.removeHandler(caplog.handler)
    assert "its stack cannot be shown: RuntimeError: changed" in caplog.text
