"""Steps of workflows: those that wait for others are kept until these have succeeded.

1. `WaitingSteps` is the block of a workflow. All its jobs are members of one batch. Those that wait for others are not
   pushed, but kept in the hash ``b-<bid>-steps``, as text that lacks only the results.
2. The script that writes the success of a step stores its result there, and pushes each step that waits for nothing
   else. So each is pushed once, whatever is killed. A step that runs twice is settled once.
3. If a step dies, or ends without a result (`Skip`, `Discard`, expired, removed, cancelled), those after it cannot run:
   the same script runs the effects of their removal, so that the batch and their states know it. The steps stay in the
   hash: if an operator retries the dead step and it succeeds, they run.

Fields of the hash: ``step:<jid>`` and ``left:<jid>`` (a waiting step, and the number of steps it waits for),
``next:<jid>`` (who waits for a step, and whether for its result), ``result:<jid>`` (JSON), ``waiting`` (their number).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from offsider.client import Client
from offsider.client.deferred import DeferredCallback
from offsider.client.plan import take_replicas
from offsider.config import test_mode
from offsider.config.hooks import Prepared
from offsider.core.arguments import MAX_ARGUMENT_NESTING, StepResult, encode_result
from offsider.core.errors import InvalidArguments, InvalidOptions
from offsider.core.job_id import JobId
from offsider.core.outcome import Succeeded
from offsider.core.payload import check_nesting, decode, encode, encode_text
from offsider.ext.batches import store
from offsider.ext.batches.block import Block
from offsider.inspector import removal
from offsider.jobs.enqueuer import Enqueuer
from offsider.runtime.events import JobRemoved
from offsider.storage.effects import Effect, EffectCalls
from offsider.storage.scripts import Argument, Command

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.core.outcome import Destination, Outcome
    from offsider.ext.batches.block import StoredBatch
    from offsider.jobs.enqueuer import JobCall
    from offsider.runtime.context import JobContext

RESULT: Any = StepResult("RESULT")
"""Stands for the result of the step before, in the arguments of ``some_job.call(...)``."""

#: Random, so that no other argument contains it.
_MARK = "result of another step 6f1c9c1a77e84f0f9d1f0a1ce2b7d5a3"
#: Payload key of a step that others wait for.
FOLLOWED = "workflow"
#: Place of a step that waits, in the news of its removal.
WAITING = "workflow"
CONTINUING = "continuing a workflow"
#: Maximum size of a result that another step takes, as JSON.
MAX_BYTES = 1_048_576
CHUNK = 500


@dataclass(slots=True)
class Plan:
    """A step of a workflow.

    Attributes:
        name: for messages.
        after: jids of the steps it waits for.
        many: it takes a list of their results, not one.
        followed: others wait for it.
        takes: its arguments contain `RESULT`.
        followers: jids of those that wait for it.
        is_encrypted: its last argument is encrypted.
    """

    name: str
    after: Sequence[str]
    many: bool
    followed: bool
    takes: bool = False
    followers: list[str] = field(default_factory=list[str])
    is_encrypted: bool = False


class WaitingSteps(Block):
    """The pushes of one workflow.

    Args:
        life_seconds: how long steps may wait.
    """

    def __init__(self, batch: StoredBatch, life_seconds: int) -> None:
        super().__init__(batch, autoflush=0)
        self._life_seconds = life_seconds
        self._plans: dict[str, Plan] = {}

    def push(self, call: JobCall[..., Any], plan: Plan) -> JobId[Any]:
        """Push a step, after those it waits for.

        Raises:
            InvalidOptions: an option is invalid, or it takes `RESULT` and waits for no step.
            InvalidArguments: the arguments do not match.
            BatchSpansServers: it is for another server.
        """
        server = self.batch.server
        client = Client.of(server)
        item = Enqueuer[..., Any](call.declared, call.options).item(client, call.args, call.kwargs)
        stored, replicas = take_replicas(item, 0)
        push = client.build({name: value for name, value in stored.items() if name != "after_commit"})
        payload = cast("dict[str, Any]", push.payload)
        plan.takes = _mark(payload)
        if plan.takes and not plan.after:
            raise InvalidOptions(
                f"step {plan.name!r} uses RESULT, but waits for no other step: name the step in after=[...]"
            )
        plan.is_encrypted = bool(payload.get("encrypt"))
        if plan.takes and (plan.is_encrypted or any(self._plans[before].is_encrypted for before in plan.after)):
            raise InvalidOptions(
                f"step {plan.name!r} uses RESULT, which the server puts in and cannot encrypt: read it with "
                "JobId.result() instead, or do without encrypt"
            )
        if plan.followed:
            payload[FOLLOWED] = True
        jid = payload["jid"]
        self._plans[jid] = plan
        for before in plan.after:
            self._plans[before].followers.append(jid)
        self.add(DeferredCallback(client, [push], replicas))
        return JobId.at(server, jid)

    def _check(self, jobs: Sequence[Prepared]) -> None:
        super()._check(jobs)
        for jid in self._plans.keys() - {job.jid for job in jobs}:
            raise InvalidOptions(f"client middleware canceled the push of step {self._plans[jid].name!r} of a workflow")
        for job in jobs:
            plan = self._plans[job.jid]
            if plan.after and (job.guarded or job.at is not None):
                raise InvalidOptions(f"step {plan.name!r} waits for other steps, so it cannot be unique or have a time")

    def _send(self, jobs: Sequence[Prepared], replicas: int) -> None:
        if test_mode.current() is not None:
            self._keep_in_memory(jobs)
        else:
            queues = {job.jid: job.queue for job in jobs}
            life_seconds = self._life_seconds + math.ceil(self._delay_seconds(jobs))
            for start in range(0, len(jobs), CHUNK):
                self._keep(jobs[start : start + CHUNK], queues, life_seconds)
        super()._send([job for job in jobs if not self._plans[job.jid].after], replicas)

    def _keep_in_memory(self, jobs: Sequence[Prepared]) -> None:
        """Let the test mode push waiting steps as ``follow.lua`` does."""
        server, waits, results = self.batch.server, {job.jid: job for job in jobs}, dict[str, str]()

        def follow(run: JobContext, result: Any) -> list[Prepared]:
            followers = [self._plans[jid] for jid in self._plans[run.jid].followers]
            run.result = result
            try:
                results[run.jid] = text_of(run, _levels(followers))
            except InvalidArguments as error:
                server.config.handle_error(error, {"context": CONTINUING, "job": run.payload})
                return []
            due = [jid for jid in self._plans[run.jid].followers if all(map(results.get, self._plans[jid].after))]
            return [_following(waits[jid], self._plans[jid], results) for jid in due]

        test_mode.followers.update((job.jid, follow) for job in jobs if self._plans[job.jid].followers)

    def _keep(self, jobs: Sequence[Prepared], queues: Mapping[str, str], life_seconds: int) -> None:
        server, fields, waits = self.batch.server, list[Argument](), list[Prepared]()
        for job in jobs:
            plan = self._plans[job.jid]
            if plan.followers:
                levels = _levels(self._plans[jid] for jid in plan.followers)
                fields += (f"next:{job.jid}", json.dumps([levels, [[jid, queues[jid]] for jid in plan.followers]]))
            if plan.after:
                step = _kept(job, plan, server.settings.wire_version)
                fields += (f"step:{job.jid}", step, f"left:{job.jid}", len(plan.after))
                waits.append(job)
        if fields:
            key = store.batch_key(server.redis.keys, self.batch.bid, store.STEPS)
            ends: list[Command] = [("HINCRBY", key, "waiting", len(waits)), ("EXPIRE", key, life_seconds)]
            calls = EffectCalls([job.effects for job in waits], [job.jid for job in waits]).calls
            alone = [script.by_text(names, arguments) for script, names, arguments in (call.alone() for call in calls)]
            server.redis.pipeline([("HSET", key, *fields), *ends, *alone])


def _mark(payload: dict[str, Any]) -> bool:
    """Replace `RESULT` among the arguments by plain text; return whether there was one."""
    args, kwargs = payload["args"], payload.get("kwargs", {})
    if not any(isinstance(value, StepResult) for value in (*args, *kwargs.values())):
        return False
    payload["args"] = [_MARK if isinstance(value, StepResult) else value for value in args]
    if kwargs:
        payload["kwargs"] = {name: _MARK if isinstance(value, StepResult) else value for name, value in kwargs.items()}
    return True


def _kept(job: Prepared, plan: Plan, wire: int) -> str:
    """Return a waiting step as ``follow.lua`` reads it; the script adds the results and ``enqueued_at``."""
    payload = {name: value for name, value in job.payload.items() if name != "enqueued_at"}
    text = encode(payload)[:-1].decode()
    return json.dumps({"parts": text.split(encode_text(_MARK)), "after": plan.after, "many": plan.many, "wire": wire})


def _following(job: Prepared, plan: Plan, results: Mapping[str, str]) -> Prepared:
    found = [results[before] for before in plan.after]
    given = f"[{','.join(found)}]" if plan.many else found[0]
    raw = encode(job.payload).replace(encode_text(_MARK).encode(), given.encode())
    return replace(job, payload=decode(raw), raw=raw)


def _levels(followers: Iterable[Plan]) -> int:
    """Return how steps take the result of one: 0 not, 1 as an argument, 2 in a list of results."""
    return max((1 + plan.many for plan in followers if plan.takes), default=0)


def text_of(job: JobContext, levels: int) -> str:
    """Return the result of a step as JSON. Raises InvalidArguments if others take it, and it cannot be an argument."""
    if not levels:
        return "null"
    try:
        raw = encode_result(job.result, MAX_BYTES, "the limit of workflows")
        check_nesting(raw, job.result, MAX_ARGUMENT_NESTING + 1 - levels)
    except ValueError as error:
        raise InvalidArguments(f"{job.name}: its result cannot be an argument of the next step: {error}") from error
    return raw.decode()


def following(server: Installation, job: JobContext, bid: str) -> Effect | None:
    """Return the effect of a step that others wait for; None if its workflow does not exist. Raises RedisFailure."""
    keys, steps = server.redis.keys, store.batch_key(server.redis.keys, bid, store.STEPS)
    found = server.redis.call("HGET", steps, f"next:{job.jid}")
    if found is None:
        return None
    levels, followers = json.loads(found)

    def arguments(outcome: Outcome, goes: Destination) -> Sequence[Argument] | Sequence[Effect] | None:
        if goes not in ("gone", "dead", "quarantine"):
            return None
        if goes != "gone" or not isinstance(outcome, Succeeded):
            return stopping(server, bid, job.jid)
        try:
            text = text_of(job, int(levels))
        except InvalidArguments as error:
            server.config.handle_error(error, {"context": CONTINUING, "job": job.payload})
            return stopping(server, bid, job.jid, error)
        return [
            job.jid,
            text,
            store.Lives.of(server.config).success,
            *(part for follower in followers for part in follower),
        ]

    return Effect(store.FOLLOW, [steps, keys.queues, *(keys.queue(queue) for _, queue in followers)], arguments)


def stopping(server: Installation, bid: str, jid: str, error: InvalidArguments | None = None) -> list[Effect]:
    """Return the effects for the steps after this one, which cannot run because of ``error``. Raises RedisFailure."""
    return [effect for news in _after(server, bid, jid, error) for effect in removal.effects_of(server, news)]


def _after(server: Installation, bid: str, jid: str, error: InvalidArguments | None) -> Iterator[JobRemoved]:
    """Yield the waiting steps after this one, at any distance."""
    key, seen, found = store.batch_key(server.redis.keys, bid, store.STEPS), {jid}, [jid]
    while True:
        followed = server.redis.call("HMGET", key, *(f"next:{one}" for one in found))
        behind = [one for raw in followed if raw for one, _ in json.loads(raw)[1]]
        found = [one for one in dict.fromkeys(behind) if one not in seen]
        seen.update(found)
        if not found:
            return
        for raw in server.redis.call("HMGET", key, *(f"step:{one}" for one in found)):
            if raw is not None:
                text = "null".join(json.loads(raw)["parts"]) + "}"
                yield JobRemoved(encode(decode(text.encode())), WAITING, "kill", server.name, error)
