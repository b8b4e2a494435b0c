"""Effects: scripts of extensions that run inside the script that writes the outcome of a job, or stores a push.

1. An effect is a script with its keys and arguments. With an outcome, it runs only if the worker still owns the job:
   the same script removes the job from its private list. A void run has no effects.
2. `joined` combines a script with the effects of its jobs. Each combination is composed once. A script without
   effects is sent unchanged.
3. A failed effect does not prevent the outcome from being written, or the job from being stored: its error becomes its
   reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from offsider.storage.scripts import Argument, Call, RunsScripts, Script

if TYPE_CHECKING:
    from offsider.core.outcome import Destination, Outcome

ArgumentsOf: TypeAlias = "Callable[[Outcome, Destination], Sequence[Argument] | None]"
"""Returns the arguments of an effect for an outcome and where the job goes; None if the effect does not apply."""


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """A script that an extension runs with the outcome of a job, declared in ``job.effects`` during the run; or with a
    push, see `offsider.config.push_effects`.

    Attributes:
        script: returns a number, or nothing.
        arguments: for an outcome also a function, for example `at_end`.
        done: called after the outcome was written, with the script's reply and the outcome of the run. The reply is
            None if it was lost or the script failed. Not called for a void run, and not for a push.
    """

    script: Script
    keys: Sequence[str]
    arguments: Sequence[Argument] | ArgumentsOf = ()
    done: Callable[[Any, Outcome], None] | None = None

    def applied(self, outcome: Outcome, goes: Destination) -> Effect | None:
        """Return the effect with its arguments for this outcome; None if it does not apply."""
        if not callable(self.arguments):
            return self
        arguments = self.arguments(outcome, goes)
        return None if arguments is None else replace(self, arguments=arguments)


def at_end(*arguments: Argument) -> ArgumentsOf:
    """Apply an effect only if the job ends: succeeded, skipped, discarded or dead."""
    return lambda _, goes: arguments if goes in ("gone", "dead") else None


Placed: TypeAlias = "Sequence[tuple[int, Effect]]"
"""Effects, each with the index of its job in the script, from 0."""

#: A script returns 1 or 0; or a list of these for its jobs; or (`ack_and_claim`) a list that starts with the indexes of
#: missing jobs; or (push guards) nothing, or a string for each job, empty if the job is stored.
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
elseif written and type(written[1]) == 'table' then
  for _, place in ipairs(written[1]) do gone[place] = true end
elseif written then
  for i, one in ipairs(written) do gone[i] = one ~= 1 and one ~= '' end
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
return {{written or false, replies}}
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
        own = cast("Sequence[Argument]", effect.arguments)
        all_keys += effect.keys
        all_arguments += (place + 1, scripts.index(effect.script) + 1, len(effect.keys), len(own), *own)
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
    return [redis.run(one.script, one.keys, cast("Sequence[Argument]", one.arguments)) for one in effects]
