"""Effects: scripts of extensions that run inside the script that writes the outcome of a job.

1. An effect is a script with its keys and arguments. It runs only if the worker still owns the job: the same script
   removes the job from its private list. A void run has no effects.
2. `joined` combines a script with the effects of its jobs. Each combination is composed once. A script without
   effects is sent unchanged.
3. A failed effect does not prevent the outcome from being written: its error becomes its reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from offsider.storage.scripts import Argument, Call, RunsScripts, Script

if TYPE_CHECKING:
    from offsider.core.outcome import Outcome


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """A script that an extension runs with the outcome of a job. Declare it in ``job.effects`` during the run.

    Attributes:
        script: returns a number, or nothing.
        at_end: run only when the job ends: succeeded, discarded or dead. Otherwise with every outcome.
        done: called after the outcome was written, with the script's reply and the outcome of the run. The reply is
            None if it was lost or the script failed. Not called for a void run.
    """

    script: Script
    keys: Sequence[str]
    arguments: Sequence[Argument] = ()
    at_end: bool = False
    done: Callable[[Any, Outcome], None] | None = None


Placed: TypeAlias = "Sequence[tuple[int, Effect]]"
"""Effects, each with the index of its job in the script, from 0."""

#: A script returns 1 or 0, or a list of these for its jobs, or (`ack_and_claim`) a list that starts with the indexes of
#: missing jobs.
_COMPOSED = """{flags}
local function outcome(KEYS, ARGV)
{outcome}
end
local effects = {{{effects}}}
local function part(list, first, count)
  local found = {{}}
  for i = 1, count do found[i] = list[first + i - 1] end
  return found
end
local key, at = ARGV[1] + 1, ARGV[2] + 3
local written = outcome(part(KEYS, 1, ARGV[1]), part(ARGV, 3, ARGV[2]))
if type(written) == 'table' and written.err then return written end
local gone = {{}}
if type(written) == 'number' then
  gone[1] = written ~= 1
elseif type(written[1]) == 'number' then
  for i, one in ipairs(written) do gone[i] = one ~= 1 end
else
  for _, place in ipairs(written[1]) do gone[place] = true end
end
local replies = {{}}
while at <= #ARGV do
  local place, effect, keys, arguments = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  local reply = false
  if not gone[place] then
    local succeeded
    succeeded, reply = pcall(effects[effect], part(KEYS, key, keys), part(ARGV, at + 4, arguments))
    if not succeeded then reply = type(reply) == 'table' and reply.err or tostring(reply) end
  end
  replies[#replies + 1] = reply or false
  key, at = key + keys, at + 4 + arguments
end
return {{written, replies}}
"""


@cache
def _composed(script: Script, *effects: Script) -> Script:
    flags, _, outcome = script.source.partition("\n")
    functions = ",\n".join(f"function(KEYS, ARGV)\n{one.source.partition(chr(10))[2]}end" for one in effects)
    return Script(script.name, source=_COMPOSED.format(flags=flags, outcome=outcome, effects=functions))


def joined(script: Script, keys: Sequence[str], arguments: Sequence[Argument], effects: Placed) -> Call:
    """Combine a script and the effects of its jobs. The call returns the script's reply and those of the effects."""
    scripts = sorted({effect.script for _, effect in effects}, key=lambda one: (one.name, one.sha))
    all_keys = [*keys]
    all_arguments: list[Argument] = [len(keys), len(arguments), *arguments]
    for place, effect in effects:
        all_keys += effect.keys
        number = scripts.index(effect.script) + 1
        all_arguments += (place + 1, number, len(effect.keys), len(effect.arguments), *effect.arguments)
    return _composed(script, *scripts), all_keys, all_arguments


class Together:
    """Runs a script on one job together with the effects of its outcome.

    Attributes:
        replies: replies of the effects.
    """

    def __init__(self, redis: RunsScripts, effects: Sequence[Effect]) -> None:
        self.keys = redis.keys
        self._redis = redis
        self._effects = effects
        self.replies: Sequence[Any] = ()

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument] = ()) -> Any:
        if not self._effects:
            return self._redis.run(script, keys, arguments)
        written, self.replies = self._redis.run(*joined(script, keys, arguments, [(0, one) for one in self._effects]))
        return written


def run_alone(redis: RunsScripts, effects: Sequence[Effect]) -> list[Any]:
    """Run effects separately, for an outcome that no script writes. Returns their replies."""
    return [redis.run(one.script, one.keys, one.arguments) for one in effects]
