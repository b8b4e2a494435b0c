"""Stack samples of runs that last unusually long: three of the latest run of a job, for an hour. No variables."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from offsider.storage.hashes import json_object, number_field, text_field
from offsider.storage.redis import Redis
from offsider.storage.scripts import run_together

_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
MAX_SAMPLES = 3
LIFE_SECONDS = 3_600
MAX_CHARACTERS = 4_000


class StackSample(NamedTuple):
    """Where a run was.

    Attributes:
        run_at: start of the run in epoch seconds.
        at: time of the sample in epoch seconds.
        stack: file, line, function and source line of each frame, the innermost last.
    """

    run_at: float
    at: float
    stack: str

    @property
    def place(self) -> str:
        """The innermost frame, as ``file:line in function``."""
        frames = _FRAME.findall(self.stack)
        return "{}:{} in {}".format(*frames[-1]) if frames else "an unknown place"


def add(redis: Redis, jid: str, sample: StackSample) -> None:
    """Store a sample; cut from the outermost frame."""
    key, kept = redis.keys.stacks(jid), sample._replace(stack=sample.stack[-MAX_CHARACTERS:])
    stored = json.dumps(kept._asdict())
    run_together(redis, ("RPUSH", key, stored), ("LTRIM", key, -MAX_SAMPLES, -1), ("EXPIRE", key, LIFE_SECONDS))


def read(redis: Redis, jid: str) -> list[StackSample]:
    """Return the samples of the latest run that has some, earliest first."""
    stored = map(json_object, redis.call("LRANGE", redis.keys.stacks(jid), 0, -1))
    found = [
        StackSample(number_field(one.get("run_at")), number_field(one.get("at")), text_field(one.get("stack")))
        for one in stored
    ]
    return [one for one in found if one.run_at == found[-1].run_at]
