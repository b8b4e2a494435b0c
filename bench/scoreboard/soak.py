"""All faults, for a long time: a run of `bench stress` with faults of processes, network and server."""

from __future__ import annotations

from bench.scoreboard.environment import Environment
from bench.scoreboard.row import Report, row
from bench.stress.harness import KILLED_SERVER, Plan, Stress

FAULTS = {"killed machine": 1, "stopped": 1, "reset": 2, "black hole": 1, "frozen server": 1, KILLED_SERVER: 1}
#: Jobs of 2 ms.
MIX = ((2, "done", 1),)


@row(
    "R30",
    "30 min of kills, stops, resets, black holes, frozen and killed servers, in random order, under constant load",
    bar="lost 0; buried 0; duplicates <= faults x affected threads",
)
def soak(env: Environment, report: Report) -> None:
    seconds = env.pick(smoke=8.0, full=1800.0)
    plan = Plan(env.dice.getrandbits(32), seconds, processes=2, lines=0, faults=FAULTS, mix=MIX)
    Stress(plan, env).run(report)
