"""Every key of Redis that offsider touches, as one function or constant each.

Sidekiq's own keys (seen in its source and in dumps of real processes):

===========================  ======  ==================================  ==============================
key                          type    written by                          expires
===========================  ======  ==================================  ==============================
``queues``                   set     push, scheduler, requeue            never
``queue:<name>``             list    push, scheduler, requeue            never
``schedule``                 zset    push in the future, Reschedule      never
``retry``                    zset    a failed run                        never
``dead``                     zset    a job out of retries, bad payloads  never (trimmed at each write)
``stat:<name>``              string  heartbeat                           never
``stat:<name>:<day>``        string  heartbeat                           5 years
``processes``                set     heartbeat                           never
``<identity>``               hash    heartbeat                           60 s
``<identity>:work``          hash    heartbeat (7.x, 8.x)                60 s
``<identity>:workers``       hash    heartbeat (``wire_version = 6``)    60 s
``<identity>-signals``       list    web page, ``quiet`` and ``stop``    60 s
``paused``                   set     pause and unpause of a queue        never
``process_cleanup``          string  pruning of dead identities          60 s
``j|<YYMMDD>|<H:MM>``        hash    heartbeat (runs of a minute)        8 h
``j|<YYMMDD>|<H:M>``         hash    heartbeat (runs of ten minutes)     3 days
``h|<Class>-<D-H:M>``        string  heartbeat (histogram of a class)    8 h
``<YYYYMMDD>-marks``         hash    ``offsider mark`` (deploys)         90 days
``deploylock-<label>``       string  ``offsider mark``                   60 s
``dear-leader``              string  the leader, ours or Enterprise's     20 s
===========================  ======  ==================================  ==============================

Ours alone, all below ``offsider:`` so that nothing collides with Sidekiq Pro or Enterprise:

=============================================  ======  =================================  ==============
key                                            type    written by                         expires
=============================================  ======  =================================  ==============
``offsider:owners``                            hash    liveness (identity -> its lists)   never
``offsider:alive:<identity>``                  string  liveness                           liveness life
``offsider:fenced:<identity>``                 string  sweep, before it takes the jobs    24 h
``offsider:suspects``                          hash    sweep (looks at a silent owner)    never
``offsider:sweep``                             string  sweep (the lease)                  3 looks
``offsider:schedule``                          string  scheduler (the lease)              5 s
``offsider:schedule:free``                     string  scheduler (gives the lease back)   at once
``offsider:working:<identity>:<cap>:<queue>``  list    claim                              never
``offsider:strikes:<jid>``                     zset    sweep (identity -> its death)      72 h
``offsider:quarantine``                        zset    bulk purges (id -> kept until)     never (trimmed)
``offsider:quarantine:jobs``                   hash    bulk purges (id -> job and place)  never (trimmed)
``offsider:attempts``                          zset    a failed run (jid -> when)         never (10,000 jobs)
``offsider:attempts:<jid>``                    list    a failed run (the last ten)        with the job
``offsider:errors``                            zset    a failed run (group -> last seen)  never (500 groups)
``offsider:errors:fields``                     hash    a failed run (counts of groups)    never (500 groups)
``offsider:series``                            zset    heartbeat (labels -> last added)   never (30 days)
``offsider:series:<labels>``                   hash    heartbeat (sums that only grow)    30 days
``offsider:slo:<step>:<number>``               hash    heartbeat (runs and targets)       8 h, 80 h
``offsider:load``                              hash    heartbeat (work of a shard, sums)  30 days
``offsider:load:<hour>``                       hash    heartbeat (the same by minutes)    8 h
``offsider:classes:<identity>``                string  heartbeat (the jobs it knows)      60 s
``offsider:places``                            set     extensions (lists where jobs lie)  never
``offsider:parked``                            hash    a worker that cannot run a job     15 min
``offsider:parked:counts``                     hash    the same (class -> how often)      never (500 classes)
``offsider:parked:walked:<group>``             string  a worker that looked for these     15 min
``offsider:turn:<name>``                       string  history of metrics (its lease)     3 looks
``offsider:switches``                          hash    switches (class -> what is done)   never
``offsider:switches:acted``                    hash    worker (class -> jobs acted on)    never
``offsider:clients``                           zset    push (host:role:rules -> seen)     5 min
``offsider:migrating``                         set     migration (names of journals)      with the last one
``offsider:migrating:<id>``                    list    migration (jobs on their way)      when all arrived
``offsider:migrated:<id>``                     string  migration (what has arrived)       90 days
=============================================  ======  =================================  ==============

``key_prefix`` stands before every one of them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

FENCE_SECONDS = 24 * 60 * 60
STRIKE_SECONDS = 72 * 60 * 60

_GLOB = re.compile(r"[*?\[\]\\]")
_BACKSLASHED = r"\\\g<0>"


class Keys:
    """The keys of one installation: each property or method answers a full key.

    Args:
        prefix: put before every key as it is, for example ``"resque:gitlab:"``.
    """

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.queues = prefix + "queues"
        self.schedule = prefix + "schedule"
        self.retry = prefix + "retry"
        self.dead = prefix + "dead"
        self.processes = prefix + "processes"
        self.paused = prefix + "paused"
        self.process_cleanup = prefix + "process_cleanup"
        self.leader = prefix + "dear-leader"
        self.owners = prefix + "offsider:owners"
        self.suspects = prefix + "offsider:suspects"
        self.sweep = prefix + "offsider:sweep"
        self.schedule_lease = prefix + "offsider:schedule"
        self.schedule_free = prefix + "offsider:schedule:free"
        self.quarantine = prefix + "offsider:quarantine"
        self.quarantined_jobs = prefix + "offsider:quarantine:jobs"
        self.every_attempts = prefix + "offsider:attempts"
        self.errors = prefix + "offsider:errors"
        self.error_fields = prefix + "offsider:errors:fields"
        self.every_series = prefix + "offsider:series"
        self.switches = prefix + "offsider:switches"
        self.switches_acted = prefix + "offsider:switches:acted"
        self.clients = prefix + "offsider:clients"
        self.parked = prefix + "offsider:parked"
        self.parked_counts = prefix + "offsider:parked:counts"
        self.places = prefix + "offsider:places"
        self.journals = prefix + "offsider:migrating"
        self.loads = prefix + "offsider:load"
        self._queue = prefix + "queue:"

    def queue(self, name: str) -> str:
        return self._queue + name

    def stat(self, name: str) -> str:
        return f"{self.prefix}stat:{name}"

    def stat_day(self, name: str, day: str) -> str:
        """``day`` is a UTC date as ``YYYY-MM-DD``."""
        return f"{self.prefix}stat:{name}:{day}"

    def process(self, identity: str) -> str:
        return self.prefix + identity

    def work(self, identity: str) -> str:
        return f"{self.prefix}{identity}:work"

    def workers(self, identity: str) -> str:
        """The work hash as Sidekiq 6 names it."""
        return f"{self.prefix}{identity}:workers"

    def signals(self, identity: str) -> str:
        return f"{self.prefix}{identity}-signals"

    def job_minute(self, at: datetime, wire_version: int = 8) -> str:
        """What ran in the minute of ``at``: a year of two digits (four in 7), an hour without a leading zero."""
        at = at.astimezone(UTC)
        day = at.strftime("%Y%m%d" if wire_version == 7 else "%y%m%d")
        return f"{self.prefix}j|{day}|{at.hour}:{at.minute:02d}"

    def job_ten_minutes(self, at: datetime) -> str:
        """The same for ten minutes: the last digit of the minute is cut."""
        return self.job_minute(at)[:-1]

    def job_histogram(self, name: str, at: datetime, wire_version: int = 8) -> str:
        """How long runs of a class took in the minute of ``at``: no number has a leading zero."""
        at = at.astimezone(UTC)
        start = "" if wire_version == 7 else "h|"
        return f"{self.prefix}{start}{name}-{at.day}-{at.hour}:{at.minute}"

    def deploy_marks(self, at: datetime) -> str:
        """The deploys of the day of ``at`` in UTC."""
        return f"{self.prefix}{at.astimezone(UTC):%Y%m%d}-marks"

    def deploy_lock(self, label: str) -> str:
        return f"{self.prefix}deploylock-{label}"

    def attempts(self, jid: str) -> str:
        return f"{self.every_attempts}:{jid}"

    def series(self, labels: str) -> str:
        """Sums of the runs that share these labels, which are JSON."""
        return f"{self.every_series}:{labels}"

    def slo(self, step: str, number: str) -> str:
        """How many runs kept their targets in the stretch of time of this number: of ten minutes, or an hour."""
        return f"{self.prefix}offsider:slo:{step}:{number}"

    def load(self, hour: str) -> str:
        """How long threads ran jobs, and could have, in each minute of an hour: of its number since the epoch."""
        return f"{self.loads}:{hour}"

    def alive(self, identity: str) -> str:
        return f"{self.prefix}offsider:alive:{identity}"

    def fenced(self, identity: str) -> str:
        return f"{self.prefix}offsider:fenced:{identity}"

    def strikes(self, jid: str) -> str:
        """The deaths that a job was there at; a job without a jid goes by a digest."""
        return f"{self.prefix}offsider:strikes:{jid}"

    def registered(self, identity: str) -> str:
        """Which names of jobs a process knows."""
        return f"{self.prefix}offsider:classes:{identity}"

    def parked_walk(self, group: str) -> str:
        """What workers of one group have looked for last among parked jobs."""
        return f"{self.parked}:walked:{group}"

    def turn(self, name: str) -> str:
        """Who does what one process at a time is enough for."""
        return f"{self.prefix}offsider:turn:{name}"

    def migrating(self, journal: str) -> str:
        """Jobs on their way to another server."""
        return f"{self.journals}:{journal}"

    def migrated(self, journal: str) -> str:
        """How far the jobs of a journal of another server have come here."""
        return f"{self.prefix}offsider:migrated:{journal}"

    def working(self, identity: str, capsule: str, queue: str) -> str:
        return f"{self.working_start}{identity}:{capsule}:{queue}"

    @property
    def working_start(self) -> str:
        """What the keys of all private lists begin with."""
        return f"{self.prefix}offsider:working:"

    @property
    def every_working(self) -> str:
        """The pattern that a SCAN for private lists matches."""
        return f"{_GLOB.sub(_BACKSLASHED, self.working_start)}*"
