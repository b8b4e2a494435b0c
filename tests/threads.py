"""The threads of offsider that are alive in this process."""

from __future__ import annotations

import threading

#: Threads that do nothing by themselves, and end with the object or the process that they work for.
IDLE_UNTIL_ASKED = ("offsider-web", "offsider-log")


def our_threads() -> set[threading.Thread]:
    """All but those that only wait for work: the pools of pages that an earlier test has asked, for example."""
    ours = (thread for thread in threading.enumerate() if thread.name.startswith("offsider-"))
    return {thread for thread in ours if not thread.name.startswith(IDLE_UNTIL_ASKED)}


def names_of_threads() -> list[str]:
    """Their names, sorted."""
    return sorted(thread.name for thread in our_threads())
