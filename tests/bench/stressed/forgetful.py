"""An engine that forgets one claim of fifty, which then stays in its private list, and that leaves a thread."""

from __future__ import annotations

import itertools
import threading
from collections import deque

from bench.stress import jobs
from offsider.worker.fetch.state import Prefetched

_claims = itertools.count(1)
_make = Prefetched.__init__


class Forgetful(deque):
    def extend(self, units):
        super().extend(unit for unit in units if next(_claims) % 50)


def make(self):
    _make(self)
    self.ready = Forgetful()
    threading.Thread(target=threading.Event().wait, name="offsider-default-left", daemon=True).start()


Prefetched.__init__ = make


def configure(config):  # the worker calls only a function of the application's own
    jobs.configure(config)
