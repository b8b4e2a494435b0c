"""All Redis keys of offsider itself, one function or constant each.

Only this module builds them. Extensions build their own keys, in ``ext/*/store.py``.

Sidekiq's keys (from its source and from dumps of real processes):

===========================  ======  ==================================  ==============================
key                          type    written by                          expires
===========================  ======  ==================================  ==============================
``queues``                   set     push, scheduler, requeue            never
``queue:<name>``             list    push, scheduler, requeue            never
``schedule``                 zset    push in the future, Reschedule      never
``retry``                    zset    a failed run                        never
``dead``                     zset    a job out of retries, bad payloads  never (trimmed at each write)
``stat:<name>``              string  worker, each second of work         never
``stat:<name>:<day>``        string  worker, each second of work         5 years
``processes``                set     heartbeat                           never
``<identity>``               hash    heartbeat; activity each second     60 s
``<identity>:work``          hash    heartbeat (7.x, 8.x)                60 s
``<identity>:workers``       hash    heartbeat (``wire_version = 6``)    60 s
``<identity>-signals``       list    ``quiet``, ``stop``, ``cancel``     60 s
``paused``                   set     pause and unpause of a queue        never
``process_cleanup``          string  pruning of dead identities          60 s
``j|<YYMMDD>|<H:MM>``        hash    heartbeat (runs of a minute)        8 h
``j|<YYMMDD>|<H:M>``         hash    heartbeat (runs of ten minutes)     3 days
``h|<Class>-<D-H:M>``        string  heartbeat (histogram of a class)    8 h
``<YYYYMMDD>-marks``         hash    a new release, ``offsider mark``    90 days
``deploylock-<label>``       string  a new release, ``offsider mark``    60 s
``profiles``                 zset    ``Profiles`` (key -> expiry)         a day each
``<token>-<jid>``            hash    ``Profiles`` (a profile)             1 day
``it-<jid>``                 hash    iteration (cursor), cancellation    30 days
``dear-leader``              string  the leader, also Enterprise's        20 s
===========================  ======  ==================================  ==============================

offsider's keys start with ``offsider:``, so that they cannot collide with Sidekiq Pro or Enterprise:

=============================================  ======  =================================  ==============
key                                            type    written by                         expires
=============================================  ======  =================================  ==============
``offsider:owners``                            hash    liveness (identity -> its lists)   never
``offsider:alive:<identity>``                  string  liveness                           ``worker.liveness_seconds``
``offsider:fenced:<identity>``                 string  sweep, parent (dead owners)        24 h
``offsider:suspects``                          hash    sweep (silent owners)              never
``offsider:sweep``                             string  sweep (the lease)                  3 intervals
``offsider:schedule``                          string  scheduler (the lease)              3 s
``offsider:working:<identity>:<cap>:<queue>``  list    claim                              never
``offsider:strikes:<jid>``                     zset    sweep, parent (identity -> death)  72 h
``offsider:rescued``                           list    parent (jobs of dead workers)      1 day
``offsider:quarantine``                        zset    bulk purges (id -> kept until)     never (trimmed)
``offsider:quarantine:jobs``                   hash    bulk purges (id -> job and place)  never (trimmed)
``offsider:counted:<name>``                    hash    pages (jobs of a bulk action)      1 h
``offsider:stacks:<jid>``                      list    watchdog (samples of a long run)   1 h
``offsider:steps:<jid>``                       hash    steps, signals (their results)      with the job
``offsider:attempts``                          zset    a failed run (jid -> when)         never (10,000 jobs)
``offsider:attempts:<jid>``                    list    a failed run (the last ten)        with the job
``offsider:attempts:<jid>:log``                list    a failed run (lines of three)      with the job
``offsider:errors``                            zset    a failed run (group -> last seen)  never (500 groups)
``offsider:errors:<group>``                    hash    a failed run (totals and facts)    30 days
``offsider:errors:<group>:users``              string  a failed run (HyperLogLog)         30 days
``offsider:series:<metric>``                   zset    heartbeat, sampler (label sets)    8 h, 14 or 30 days
``offsider:series:<metric>:<chunk>:<labels>``  string  heartbeat, sampler (counts)        8 h, 14 or 30 days
``offsider:runs``                              string  worker (ring of finished runs)     7 days
``offsider:runs:kinds``                        hash    worker (number -> class, ...)      7 days
``offsider:claimed``                           hash    worker (queue -> claims)           never (its queues)
``offsider:sample``                            string  sampler (the last sample)          60 s
``offsider:places``                            set     extensions (lists with jobs)       never
``offsider:stranded``                          hash    worker (stranded jobs)             15 min
``offsider:stranded:counts``                   hash    worker (class -> count)            never (500 classes)
``offsider:expired``                           hash    worker (class -> count)            never (its classes)
``offsider:handed-on:<jid>:<retry>``           string  hand-overs of a job (count)        1 h
``offsider:turn:<name>``                       string  history, sampler (their leases)    3 intervals
``offsider:controls:version``                  set     controls and signals (one member)  never
``offsider:controls``                          hash    controls (subject -> action)       never
``offsider:controls:acted``                    hash    worker (subject -> affected jobs)  never
``offsider:limits``                            hash    workers (class -> limits in code)  never
``offsider:groups``                            set     slots (groups)                     never
``offsider:groups:due``                        zset    slots (group -> next check)        never
``offsider:slots:<group>``                     zset    slots (run -> since)               never
``offsider:starts:<group>``                    zset    slots (run -> since)               with the window
``offsider:resumed:<group>``                   zset    slots (jid -> time)                never
``offsider:resumed-payloads:<group>``          hash    slots (jid -> job in its queue)    never
``offsider:held:<group>``                      list    slots (held jobs)                  never
``offsider:held-run:<run>``                    string  slots (a job was held)             10 min
``offsider:clients``                           zset    push (host:role:rules -> time)     5 min
``offsider:in-transit``                        set     moves (names of servers)           never
``offsider:in-transit:<server>``               list    moves (jobs in transit)            when delivered
``offsider:stored:<jid>:<hop>``                string  transfers (a job was stored)       1 day
``offsider:findings``                          string  sampler (findings)                 1 h
``offsider:findings:muted``                    hash    operators (finding -> until, who)  never (1,000 findings)
``offsider:findings:posted``                   hash    alerts (finding -> what, when)     7 days
``offsider:releases``                          zset    heartbeat (release -> last seen)   never (100)
``offsider:events``                            stream  workers, pages, commands (events)  never (10,000)
=============================================  ======  =================================  ==============

Every key is prefixed with ``key_prefix``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

FENCE_SECONDS = 24 * 60 * 60
STRIKE_SECONDS = 72 * 60 * 60

#: The common beginning of a family of keys, without their prefix: offsider's keys up to the name of the extension or
#: feature, Sidekiq's up to the first separator, batches, processes.
FAMILY = re.compile(
    r"offsider:(?:results|series):[a-z_]+:?|offsider:[a-z-]+:?|(?:queue|stat):|[hj]\||b-"
    r"|deploylock-|(?P<marks>[0-9]{8}-marks)$|(?P<identity>[^:|]+:\d+:[0-9a-f]{12})"
    r"|(?:queues|schedule|retry|dead|processes|paused|batches|dear-leader|process_cleanup)$"
)

_GLOB = re.compile(r"[*?\[\]\\]")
_BACKSLASHED = r"\\\g<0>"


class Keys:
    """The keys of one installation; each property or method returns a full key.

    Args:
        prefix: put before every key unchanged, for example ``"resque:gitlab:"``.
    """

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.queues = prefix + "queues"
        self.schedule = prefix + "schedule"
        self.retry = prefix + "retry"
        self.dead = prefix + "dead"
        self.processes = prefix + "processes"
        self.paused = prefix + "paused"
        self.profiles = prefix + "profiles"
        self.process_cleanup = prefix + "process_cleanup"
        self.leader = prefix + "dear-leader"
        self.owners = prefix + "offsider:owners"
        self.suspects = prefix + "offsider:suspects"
        self.sweep = prefix + "offsider:sweep"
        self.schedule_lease = prefix + "offsider:schedule"
        self.rescued = prefix + "offsider:rescued"
        self.quarantine = prefix + "offsider:quarantine"
        self.quarantined_jobs = prefix + "offsider:quarantine:jobs"
        self.every_attempts = prefix + "offsider:attempts"
        self.errors = prefix + "offsider:errors"
        self.controls_version = prefix + "offsider:controls:version"
        self.controls = prefix + "offsider:controls"
        self.controls_acted = prefix + "offsider:controls:acted"
        self.limits = prefix + "offsider:limits"
        self.groups = prefix + "offsider:groups"
        self.groups_due = prefix + "offsider:groups:due"
        self.clients = prefix + "offsider:clients"
        self.stranded = prefix + "offsider:stranded"
        self.expired = prefix + "offsider:expired"
        self.stranded_counts = prefix + "offsider:stranded:counts"
        self.finished_runs = prefix + "offsider:runs"
        self.run_kinds = prefix + "offsider:runs:kinds"
        self.claimed = prefix + "offsider:claimed"
        self.sample = prefix + "offsider:sample"
        self.places = prefix + "offsider:places"
        self.findings = prefix + "offsider:findings"
        self.muted_findings = prefix + "offsider:findings:muted"
        self.posted_findings = prefix + "offsider:findings:posted"
        self.events = prefix + "offsider:events"
        self.releases = prefix + "offsider:releases"
        self.transits = prefix + "offsider:in-transit"
        self._queue = prefix + "queue:"

    def queue(self, name: str) -> str:
        return self._queue + name

    def slots(self, group: str) -> str:
        return f"{self.prefix}offsider:slots:{group}"

    def starts(self, group: str) -> str:
        return f"{self.prefix}offsider:starts:{group}"

    def resumed(self, group: str) -> str:
        return f"{self.prefix}offsider:resumed:{group}"

    def resumed_payloads(self, group: str) -> str:
        return f"{self.prefix}offsider:resumed-payloads:{group}"

    def held(self, group: str) -> str:
        return f"{self.prefix}offsider:held:{group}"

    def held_run(self, run: str) -> str:
        return f"{self.prefix}offsider:held-run:{run}"

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
        """The work hash of Sidekiq 6."""
        return f"{self.prefix}{identity}:workers"

    def signals(self, identity: str) -> str:
        return f"{self.prefix}{identity}-signals"

    def job_minute(self, at: datetime, wire_version: int = 8) -> str:
        """Runs in the minute of ``at``: a year of two digits (four in 7), an hour without a leading zero."""
        at = at.astimezone(UTC)
        day = at.strftime("%Y%m%d" if wire_version == 7 else "%y%m%d")
        return f"{self.prefix}j|{day}|{at.hour}:{at.minute:02d}"

    def job_ten_minutes(self, at: datetime) -> str:
        """Runs in the ten minutes of ``at``: without the last digit of the minute."""
        return self.job_minute(at)[:-1]

    def job_histogram(self, name: str, at: datetime, wire_version: int = 8) -> str:
        """Histogram of run times of a class in the minute of ``at``; numbers have no leading zeros."""
        at = at.astimezone(UTC)
        start = "" if wire_version == 7 else "h|"
        return f"{self.prefix}{start}{name}-{at.day}-{at.hour}:{at.minute}"

    def deploy_marks(self, at: datetime) -> str:
        """Deploy marks of the UTC day of ``at``."""
        return f"{self.prefix}{at.astimezone(UTC):%Y%m%d}-marks"

    def deploy_lock(self, label: str) -> str:
        return f"{self.prefix}deploylock-{label}"

    def counted(self, name: str) -> str:
        """The jobs that a bulk action counted before its confirmation."""
        return f"{self.prefix}offsider:counted:{name}"

    def attempts(self, jid: str) -> str:
        return f"{self.every_attempts}:{jid}"

    def attempts_log(self, jid: str) -> str:
        """Log lines of the last failed attempts of a job."""
        return f"{self.every_attempts}:{jid}:log"

    def stacks(self, jid: str) -> str:
        """Stack samples of a run that lasts unusually long."""
        return f"{self.prefix}offsider:stacks:{jid}"

    def error(self, group: str) -> str:
        """Totals and facts of an error group."""
        return f"{self.errors}:{group}"

    def error_users(self, group: str) -> str:
        """The users of an error group."""
        return f"{self.errors}:{group}:users"

    def every_series(self, metric: str) -> str:
        """The label sets of a metric."""
        return f"{self.prefix}offsider:series:{metric}"

    def series(self, metric: str, chunk: str, labels: str) -> str:
        """Counts of a label set (JSON) in the steps of a chunk: ``<step>:<number since the epoch>``."""
        return f"{self.every_series(metric)}:{chunk}:{labels}"

    def alive(self, identity: str) -> str:
        return f"{self.prefix}offsider:alive:{identity}"

    def steps(self, jid: str) -> str:
        return f"{self.prefix}offsider:steps:{jid}"

    def profile(self, token: str, jid: str) -> str:
        return f"{self.prefix}{token}-{jid}"

    def iteration(self, jid: str) -> str:
        return f"{self.prefix}it-{jid}"

    def fenced(self, identity: str) -> str:
        return f"{self.prefix}offsider:fenced:{identity}"

    def strikes(self, jid: str) -> str:
        """The strikes of a job, by its jid, or by a digest for a job without one."""
        return f"{self.prefix}offsider:strikes:{jid}"

    def handed_on(self, jid: str, retry: str) -> str:
        """How many times workers that cannot run a job have handed it on, per retry."""
        return f"{self.prefix}offsider:handed-on:{jid}:{retry}"

    def lease(self, name: str) -> str:
        """The lease of work that one process does at a time."""
        return f"{self.prefix}offsider:turn:{name}"

    def transit(self, server: str) -> str:
        """Jobs in transit to another server."""
        return f"{self.transits}:{server}"

    def stored(self, jid: str, hop: str) -> str:
        """The mark of a transfer whose job this server has stored."""
        return f"{self.prefix}offsider:stored:{jid}:{hop}"

    def working(self, identity: str, capsule: str, queue: str) -> str:
        return f"{self.working_start}{identity}:{capsule}:{queue}"

    @property
    def working_start(self) -> str:
        """The common prefix of all private lists."""
        return f"{self.prefix}offsider:working:"

    @property
    def every_queue(self) -> str:
        """The SCAN pattern of queues."""
        return f"{_GLOB.sub(_BACKSLASHED, self._queue)}*"

    @property
    def every_working(self) -> str:
        """The SCAN pattern of private lists."""
        return f"{_GLOB.sub(_BACKSLASHED, self.working_start)}*"
