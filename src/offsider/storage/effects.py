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

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from offsider.core.errors import ConfigurationError
from offsider.storage.scripts import Argument, Call, RunsScripts, Script

if TYPE_CHECKING:
    from offsider.core.outcome import Destination, Outcome

ArgumentsOf: TypeAlias = "Callable[[Outcome, Destination], Sequence[Argument] | Sequence[Effect] | None]"
"""Returns the arguments of an effect for an outcome and where the job goes, or other effects to run instead; None if
the effect does not apply."""


@dataclass(slots=True, eq=False)  # not frozen: a frozen one takes three times as long to create
class Effect:
    """A script that an extension runs with the outcome of a job, declared in ``job.effects`` during the run; or with a
    push, see `offsider.config.hooks`.

    Attributes:
        script: returns a number, or nothing.
        arguments: for an outcome also a function; None for the jid of the job, so that many jobs can share an effect.
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

    def __post_init__(self) -> None:
        # Here, so that a bad one fails its own job and not the request that acknowledges many.
        own = () if callable(self.arguments) else self.arguments or ()
        for word in cast("Sequence[object]", (*self.keys, *(self.common or ()), *own)):
            if isinstance(word, str):
                word.encode()
            elif not isinstance(word, (bytes, int, float)):
                msg = f"effect {self.script.name}: pass str, bytes, int or float, not {type(word).__name__}"
                raise ConfigurationError(msg)

    def applied(self, outcome: Outcome, goes: Destination) -> Sequence[Effect]:
        """Return the effect with its arguments for this outcome, or those to run instead; none if it does not apply."""
        if not callable(self.arguments):
            return (self,)
        found = self.arguments(outcome, goes)
        if found is None:
            return ()
        if found and isinstance(found[0], Effect):
            return cast("Sequence[Effect]", found)
        return (Effect(self.script, self.keys, cast("Sequence[Argument]", found), self.done, self.common),)


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

    def alone(self) -> Call:
        """Return the script call that makes this call alone."""
        return self.effect.script, self.effect.keys, [*(self.effect.common or ()), *self.arguments]


class EffectCalls:
    """The effects of the jobs of one script, as calls: one for all with the same keys and common arguments.

    Jobs in a row that share their effects, most members of a batch for example, take one step together.

    Args:
        jobs: the effects of each job, with arguments for its outcome.
        jids: the ids of the jobs, for effects without arguments.

    Attributes:
        calls: the calls; the script returns one reply for each.
    """

    def __init__(self, jobs: Iterable[Sequence[Effect]], jids: Sequence[str] = ()) -> None:
        self.calls: list[_EffectCall] = []
        self._shared: dict[tuple[int, int], int] = {}
        #: Jobs in a row: their number, and the index of the call of each effect.
        self._rows: list[tuple[int, Sequence[int]]] = []
        place = 0
        for effects, alike in groupby(jobs):
            count = len([*alike])
            row = 1 if any(effect.common is None for effect in effects) else count
            for first in range(place, place + count, row):
                indexes = [self._add(effect, range(first, first + row), jids) for effect in effects]
                self._rows.append((row, indexes))
            place += count

    def _add(self, effect: Effect, places: range, jids: Sequence[str]) -> int:
        """Add an effect for jobs in a row; return the index of its call."""
        key = (id(effect.keys), id(effect.common))
        index = len(self.calls) if effect.common is None else self._shared.setdefault(key, len(self.calls))
        if index == len(self.calls):
            self.calls.append(_EffectCall(effect, [], []))
        call = self.calls[index]
        call.places += places
        arguments = cast("Sequence[Argument] | None", effect.arguments)
        call.arguments += jids[places.start : places.stop] if arguments is None else [*arguments] * len(places)
        return index

    def by_job(self, replies: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Yield the replies to the effects of each job, in their order."""
        for count, indexes in self._rows:
            yield from repeat([replies[index] for index in indexes], count)


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
        jids: the ids of these jobs, for effects without arguments.

    Attributes:
        replies: replies of the effects of the first job.
    """

    def __init__(self, redis: RunsScripts, *jobs: Sequence[Effect], jids: Sequence[str] = ()) -> None:
        self.keys = redis.keys
        self._redis = redis
        self._jobs = jobs
        self._jids = jids
        self.replies: Sequence[Any] = ()

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument] = ()) -> Any:
        if not any(self._jobs):
            return self._redis.run(script, keys, arguments)
        effects = EffectCalls(self._jobs, self._jids)
        written, replies = self._redis.run(*joined(script, keys, arguments, effects))
        self.replies = next(effects.by_job(replies))
        return written


def run_alone(redis: RunsScripts, effects: Sequence[Effect], jid: str = "") -> list[Any]:
    """Run the effects of one job separately, for an outcome that no script writes. Returns their replies."""
    together = EffectCalls([effects], [jid])
    replies = [redis.run(*call.alone()) for call in together.calls]
    return [*next(together.by_job(replies))]
