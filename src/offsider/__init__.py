"""Background jobs for Python on Redis or Valkey, compatible with Sidekiq's data.

    from offsider import job

    @job(queue="mails")
    def welcome(user_id: int) -> None: ...

    welcome.enqueue(42)

The public names are imported at first use (PEP 562), so that web processes and command lines that only import their
jobs do not load redis-py, or any other module that they do not use.
"""

TYPE_CHECKING = False  # checkers know this name; importing typing would take most of the time of `import offsider`
if TYPE_CHECKING:
    from offsider.client import Client
    from offsider.config.config import Config, Extension
    from offsider.config.default import configure_client
    from offsider.config.installation import Installation
    from offsider.core.errors import (
        BatchFinished,
        BatchSpansServers,
        ConfigurationError,
        DecryptionFailed,
        Discard,
        HardTimeout,
        InvalidArguments,
        InvalidJob,
        InvalidOptions,
        InvalidQuery,
        JobCancelled,
        JobFailed,
        JobKilled,
        MalformedPayload,
        NoCapableWorker,
        NoCurrentJob,
        NoResult,
        NotReplicated,
        OffsiderError,
        PayloadTooLarge,
        PoisonPill,
        ProcessCrashed,
        PushCanceled,
        QueueFull,
        RedisFailure,
        RedisRefused,
        RedisUnavailable,
        Reschedule,
        ResultTimeout,
        Retry,
        RunInterrupted,
        Shutdown,
        SignalTimeout,
        Skip,
        SoftTimeout,
        TooManyReschedules,
        UnknownBatch,
        UnknownJob,
        UnsupportedServer,
    )
    from offsider.core.job_id import FailedRun, JobId, JobInfo, Progress
    from offsider.core.options import ChunkDeclaration, JobDeclaration, JobOptions
    from offsider.core.payload import JobPayload
    from offsider.jobs.base import Job
    from offsider.jobs.chunk import Call
    from offsider.jobs.enqueuer import lookup
    from offsider.jobs.function import AsyncJobFunction, ChunkFunction, JobFunction, job
    from offsider.jobs.iterable import IterableJob
    from offsider.jobs.iteration import Resumable, resumable
    from offsider.jobs.steps import Step, asignal, astep, await_for, signal, sleep_until, step, wait_for
    from offsider.runtime.context import JobContext, current_job
    from offsider.runtime.middleware import ClientMiddleware, Middleware, Push, ServerMiddleware, sets_context
    from offsider.runtime.propagation import bind_context, context
    from offsider.worker.embed import EmbeddedWorker

__version__ = "0.1.0"

__all__ = [
    "AsyncJobFunction",
    "BatchFinished",
    "BatchSpansServers",
    "Call",
    "ChunkDeclaration",
    "ChunkFunction",
    "Client",
    "ClientMiddleware",
    "Config",
    "ConfigurationError",
    "DecryptionFailed",
    "Discard",
    "EmbeddedWorker",
    "Extension",
    "FailedRun",
    "HardTimeout",
    "Installation",
    "InvalidArguments",
    "InvalidJob",
    "InvalidOptions",
    "InvalidQuery",
    "IterableJob",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobDeclaration",
    "JobFailed",
    "JobFunction",
    "JobId",
    "JobInfo",
    "JobKilled",
    "JobOptions",
    "JobPayload",
    "MalformedPayload",
    "Middleware",
    "NoCapableWorker",
    "NoCurrentJob",
    "NoResult",
    "NotReplicated",
    "OffsiderError",
    "PayloadTooLarge",
    "PoisonPill",
    "ProcessCrashed",
    "Progress",
    "Push",
    "PushCanceled",
    "QueueFull",
    "RedisFailure",
    "RedisRefused",
    "RedisUnavailable",
    "Reschedule",
    "ResultTimeout",
    "Resumable",
    "Retry",
    "RunInterrupted",
    "ServerMiddleware",
    "Shutdown",
    "SignalTimeout",
    "Skip",
    "SoftTimeout",
    "Step",
    "TooManyReschedules",
    "UnknownBatch",
    "UnknownJob",
    "UnsupportedServer",
    "asignal",
    "astep",
    "await_for",
    "bind_context",
    "configure_client",
    "context",
    "current_job",
    "job",
    "lookup",
    "resumable",
    "sets_context",
    "signal",
    "sleep_until",
    "step",
    "wait_for",
]

#: The public names by their modules; all others are in `core.errors`.
_MODULES = {
    "client": ("Client",),
    "jobs.function": ("AsyncJobFunction", "ChunkFunction", "JobFunction", "job"),
    "runtime.middleware": ("ClientMiddleware", "Middleware", "Push", "ServerMiddleware", "sets_context"),
    "config.config": ("Config", "Extension"),
    "worker.embed": ("EmbeddedWorker",),
    "core.job_id": ("FailedRun", "JobId", "JobInfo", "Progress"),
    "config.installation": ("Installation",),
    "jobs.base": ("Job",),
    "jobs.chunk": ("Call",),
    "jobs.iterable": ("IterableJob",),
    "jobs.iteration": ("Resumable", "resumable"),
    "jobs.steps": ("Step", "asignal", "astep", "await_for", "signal", "sleep_until", "step", "wait_for"),
    "runtime.context": ("JobContext", "current_job"),
    "core.options": ("ChunkDeclaration", "JobDeclaration", "JobOptions"),
    "core.payload": ("JobPayload",),
    "runtime.propagation": ("bind_context", "context"),
    "config.default": ("configure_client",),
    "jobs.enqueuer": ("lookup",),
}
_ELSEWHERE = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"offsider.{_ELSEWHERE.get(name, 'core.errors')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
