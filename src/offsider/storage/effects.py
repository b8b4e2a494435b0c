"""Effects: scripts of extensions that run inside the script that writes the outcome of a job, or stores a push.

1. An effect is a script with its keys and arguments. With an outcome, it runs only if the worker still owns the job:
   the same script removes the job from its private list. A void run has no effects.
2. `joined` combines a script with the effects of its jobs. Each combination is composed once. A script without
   effects is sent unchanged.
3. Effects of several jobs with the same keys and ``common`` arguments, the same objects, run as one call, at the place
   of the first.
4. A failed effect does not prevent the outcome from being written, or the job from being stored: its error becomes its
   reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from offsider.storage.scripts import Argument, Call, Command, RunsScripts, Script

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


def at_end(*arguments: Argument) -> ArgumentsOf:
    """Apply an effect only if the job ends: succeeded, skipped, discarded or dead."""
    return lambda _, goes: arguments if goes in ("gone", "dead") else None


def are_urgent(effects: Iterable[Effect]) -> bool:
    """Return whether the outcome is written before its thread starts another job, which may need a freed slot."""
    for effect in effects:  # noqa: SIM110  # any() takes twice as long
        if effect.common is None:
            return True
    return False


def are_shared(effects: Sequence[Effect]) -> bool:
    """Return whether these effects of a push are those of each job of its bulk push."""
    return bool(effects) and all(effect.arguments is None for effect in effects)


@dataclass(slots=True, eq=False)
class _EffectCall:
    """One call of an effect.

    Attributes:
        effect: the effect, of the first job.
        places: the indexes of its jobs in the script, from 0.
        arguments: their arguments, one job after the other.
    """

    effect: Effect
    places: list[int]
    arguments: list[Argument]

    def by_text(self) -> Command:
        """Return the command that makes this call alone."""
        return self.effect.script.by_text(self.effect.keys, [*(self.effect.common or ()), *self.arguments])


class EffectCalls:
    """The effects of the jobs of one script, as calls: one for all with the same keys and common arguments.

    Args:
        jobs: the effects of each job, with arguments for its outcome.
        jids: the ids of pushed jobs, for effects without arguments.

    Attributes:
        calls: the calls; the script returns one reply for each.
    """

    def __init__(self, jobs: Iterable[Sequence[Effect]], jids: Sequence[str] = ()) -> None:
        self.calls: list[_EffectCall] = []
        self._of_jobs: list[Sequence[int]] = []
        shared: dict[tuple[int, int] | None, int] = {}
        for place, effects in enumerate(jobs):
            of_job: list[int] = []
            for effect in effects:
                key = None if effect.common is None else (id(effect.keys), id(effect.common))
                index = shared.get(key)
                if index is None:
                    index = len(self.calls)
                    self.calls.append(_EffectCall(effect, [], []))
                    if key is not None:
                        shared[key] = index
                call = self.calls[index]
                call.places.append(place)
                arguments = cast("Sequence[Argument] | None", effect.arguments)
                call.arguments += (jids[place],) if arguments is None else arguments
                of_job.append(index)
            self._of_jobs.append(of_job)

    def replies_of(self, place: int, replies: Sequence[Any]) -> Sequence[Any]:
        """Return the replies to the effects of one job, in their order."""
        return [replies[index] for index in self._of_jobs[place]]


#: A script returns 1 or 0; or a list of these for its jobs; or (`ack_and_claim`) a list that starts with the indexes of
#: missing jobs; or (push guards) nothing, or a string for each job: empty, or with a zero byte first, if it is stored.
_COMPOSED = """{flags}
local function outcome(KEYS, ARGV)
{outcome}
end
local effects = {{{effects}}}
local function part(list, first, count)
  if tonumber(count) <= 4000 then return {{unpack(list, first, first + count - 1)}} end -- more do not fit on the stack
  local found = {{}}
  for i = 1, count do found[i] = list[first + i - 1] end
  return found
end
local key, at = ARGV[1] + 1, ARGV[2] + 3
local written = outcome(part(KEYS, 1, ARGV[1]), part(ARGV, 3, ARGV[2]))
if type(written) == 'table' and written.err then return written end
local gone = {{}}
if type(written) == 'number' then
  gone[1] = written ~= 1 or nil
elseif written and type(written[1]) == 'table' then
  for _, place in ipairs(written[1]) do gone[place] = true end
elseif written then
  for i, one in ipairs(written) do gone[i] = one ~= 1 and one ~= '' and string.sub(one, 1, 1) ~= '\\0' or nil end
end
local replies, none_gone = {{}}, next(gone) == nil
while at <= #ARGV do
  local effect, keys, common, own, each = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local places, arguments, is_here, reply = ARGV[at + 5], nil, none_gone, false
  at = at + 6
  if none_gone then
    arguments = part(ARGV, at, common + own)
  else
    arguments = part(ARGV, at, common)
    local first = at + common
    for place in string.gmatch(places, '%d+') do
      if not gone[place + 1] then
        is_here = true
        for i = first, first + each - 1 do arguments[#arguments + 1] = ARGV[i] end
      end
      first = first + each
    end
  end
  at = at + common + own
  if is_here then
    local succeeded
    succeeded, reply = pcall(effects[effect], part(KEYS, key, keys), arguments)
    if not succeeded then reply = type(reply) == 'table' and reply.err or tostring(reply) end
  end
  replies[#replies + 1] = reply or false
  key = key + keys
end
return {{written or false, replies}}
"""


@cache
def _composed(script: Script, *effects: Script) -> Script:
    flags, _, outcome = script.source.partition("\n")
    functions = ",\n".join(f"function(KEYS, ARGV)\n{one.source.partition(chr(10))[2]}end" for one in effects)
    return Script(script.name, source=_COMPOSED.format(flags=flags, outcome=outcome, effects=functions))


def joined(script: Script, keys: Sequence[str], arguments: Sequence[Argument], effects: EffectCalls) -> Call:
    """Combine a script and the effects of its jobs. The call returns the script's reply and those of the effects."""
    scripts = sorted({call.effect.script for call in effects.calls}, key=lambda one: (one.name, one.sha))
    all_keys = [*keys]
    all_arguments: list[Argument] = [len(keys), len(arguments), *arguments]
    for call in effects.calls:
        effect, own, common = call.effect, call.arguments, call.effect.common or ()
        each = len(own) // len(call.places)
        all_keys += effect.keys
        all_arguments += (scripts.index(effect.script) + 1, len(effect.keys), len(common), len(own), each)
        all_arguments += (",".join(map(str, call.places)), *common, *own)
    return _composed(script, *scripts), all_keys, all_arguments


class Together:
    """Runs a script together with the effects of its jobs.

    Args:
        redis: the server.
        jobs: the effects of each job of the script.

    Attributes:
        replies: replies of the effects of the first job.
    """

    def __init__(self, redis: RunsScripts, *jobs: Sequence[Effect]) -> None:
        self.keys = redis.keys
        self._redis = redis
        self._jobs = jobs
        self.replies: Sequence[Any] = ()

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument] = ()) -> Any:
        if not any(self._jobs):
            return self._redis.run(script, keys, arguments)
        effects = EffectCalls(self._jobs)
        written, replies = self._redis.run(*joined(script, keys, arguments, effects))
        self.replies = effects.replies_of(0, replies)
        return written


def run_alone(redis: RunsScripts, effects: Sequence[Effect]) -> list[Any]:
    """Run effects separately, for an outcome that no script writes. Returns their replies."""
    return [
        redis.run(one.script, one.keys, [*(one.common or ()), *cast("Sequence[Argument]", one.arguments)])
        for one in effects
    ]
