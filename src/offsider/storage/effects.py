"""Effects: scripts of extensions that run inside the script that writes the outcome of a job, or stores a push.

1. An effect is a script with its keys and arguments. With an outcome, it runs only if the worker still owns the job:
   the same script removes the job from its private list. A void run has no effects.
2. `joined` combines a script with the effects of its jobs. Each combination is composed once. A script without
   effects is sent unchanged.
3. Effects of several jobs with the same keys and ``common`` arguments, the same objects, run as one call. `placed` puts
   them next to each other; their order among other effects is not promised.
4. A failed effect does not prevent the outcome from being written, or the job from being stored: its error becomes its
   reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from offsider.storage.scripts import Argument, Call, RunsScripts, Script

if TYPE_CHECKING:
    from offsider.core.outcome import Destination, Outcome

ArgumentsOf: TypeAlias = "Callable[[Outcome, Destination], Sequence[Argument] | Effect | None]"
"""Returns the arguments of an effect for an outcome and where the job goes, or another effect to run instead; None if
the effect does not apply."""


@dataclass(slots=True, eq=False)  # not frozen: a frozen one takes three times as long to create
class Effect:
    """A script that an extension runs with the outcome of a job, declared in ``job.effects`` during the run; or with a
    push, see `offsider.config.push_effects`.

    Attributes:
        script: returns a number, or nothing.
        arguments: for an outcome also a function, for example `at_end`; None for the jid of a pushed job, so that the
            jobs of a bulk push can share an effect.
        common: arguments before ``arguments``. If it is not None, effects with the same ``keys`` and ``common`` run as
            one call: the script receives ``common``, and then the arguments of each, which have the same number. They
            wait a few milliseconds for those of other short jobs.
        done: called after the outcome was written, with the script's reply and the outcome of the run. The reply is
            None if it was lost or the script failed. Not called for a void run, and not for a push.
    """

    script: Script
    keys: Sequence[str]
    arguments: Sequence[Argument] | ArgumentsOf | None = ()
    done: Callable[[Any, Outcome], None] | None = None
    common: Sequence[Argument] | None = None

    def applied(self, outcome: Outcome, goes: Destination) -> Effect | None:
        """Return the effect with its arguments for this outcome; None if it does not apply."""
        if not callable(self.arguments):
            return self
        found = self.arguments(outcome, goes)
        if found is None or isinstance(found, Effect):
            return found
        return Effect(self.script, self.keys, found, self.done, self.common)

    def of_push(self, jid: str) -> Effect:
        """Return the effect with its arguments for the push of this job."""
        return self if self.arguments is not None else Effect(self.script, self.keys, (jid,), self.done, self.common)


def at_end(*arguments: Argument) -> ArgumentsOf:
    """Apply an effect only if the job ends: succeeded, skipped, discarded or dead."""
    return lambda _, goes: arguments if goes in ("gone", "dead") else None


def are_urgent(effects: Iterable[Effect]) -> bool:
    """Return whether the outcome is written before its thread starts another job, which may need a freed slot."""
    return any(effect.common is None for effect in effects)


def are_shared(effects: Sequence[Effect]) -> bool:
    """Return whether these effects of a push are those of each job of its bulk push."""
    return bool(effects) and all(effect.arguments is None for effect in effects)


Placed: TypeAlias = "Sequence[tuple[int, Effect]]"
"""Effects, each with the index of its job in the script, from 0."""


def placed(jobs: Iterable[Sequence[Effect]]) -> Placed:
    """Return the effects of jobs, those that can run as one call next to each other."""
    found = [(place, effect) for place, effects in enumerate(jobs) for effect in effects]
    if any(effect.common is not None for _, effect in found):
        found.sort(key=lambda one: (0, 0) if one[1].common is None else (id(one[1].keys), id(one[1].common)))
    return found


#: A script returns 1 or 0; or a list of these for its jobs; or (`ack_and_claim`) a list that starts with the indexes of
#: missing jobs; or (push guards) nothing, or a string for each job: empty, or with a zero byte first, if it is stored.
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
  for i, one in ipairs(written) do gone[i] = one ~= 1 and one ~= '' and string.sub(one, 1, 1) ~= '\\0' end
end
local replies, none_gone, told = {{}}, next(gone) == nil, 0
while at <= #ARGV do
  local effect, keys, jobs, own, common = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local arguments, here, reply = part(ARGV, at + 5, common), {{}}, false
  at = at + 5 + common
  local count = tonumber(common)
  for job = 1, jobs do
    local is_here = none_gone or not gone[tonumber(ARGV[at])]
    for i = at + 1, is_here and at + own or 0 do
      count = count + 1
      arguments[count] = ARGV[i]
    end
    here[job], reply, at = is_here, reply or is_here, at + 1 + own
  end
  if reply then
    local succeeded
    succeeded, reply = pcall(effects[effect], part(KEYS, key, keys), arguments)
    if not succeeded then reply = type(reply) == 'table' and reply.err or tostring(reply) end
  end
  for job = 1, jobs do replies[told + job] = here[job] and reply or false end
  told = told + jobs
  key = key + keys
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
    last, jobs_at, jobs = None, 0, 0
    for place, effect in effects:
        own = cast("Sequence[Argument]", effect.arguments)
        if last is not None and effect.common is last.common and effect.keys is last.keys:
            jobs += 1
            all_arguments[jobs_at] = jobs
        else:
            last, jobs_at, jobs = effect if effect.common is not None else None, len(all_arguments) + 2, 1
            common = effect.common or ()
            all_keys += effect.keys
            numbers = (scripts.index(effect.script) + 1, len(effect.keys), jobs, len(own), len(common))
            all_arguments += (*numbers, *common)
        all_arguments += (place + 1, *own)
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
    return [
        redis.run(one.script, one.keys, [*(one.common or ()), *cast("Sequence[Argument]", one.arguments)])
        for one in effects
    ]
