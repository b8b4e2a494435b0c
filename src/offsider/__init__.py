"""Background jobs for Python on Redis or Valkey, compatible with Sidekiq's data.

    from offsider import job

    @job(queue="mails")
    def welcome(user_id: int) -> None: ...

    welcome.enqueue(42)

The public names are found at first use (PEP 562): web processes and command lines that only import
their jobs shall not pay for redis-py, nor for anything else they do not touch.
"""

TYPE_CHECKING = False  # checkers know this name; importing typing would be most of what `import offsider` costs
if TYPE_CHECKING:
    from offsider.client import AsyncClient, Client
    from offsider.config.config import Config, Extension
    from offsider.config.default import configure_client
    from offsider.config.installation import Installation
    from offsider.core.errors import (
        BatchFinished,
        BatchSpansServers,
        ConfigurationError,
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
        PushCanceled,
        QueueFull,
        RedisFailure,
        RedisRefused,
        RedisUnavailable,
        Reschedule,
        ResultTimeout,
        Shutdown,
        Skip,
        SoftTimeout,
        TooManyReschedules,
        UnknownBatch,
        UnknownJob,
        UnsupportedServer,
    )
    from offsider.core.job_id import FailedRun, JobId, JobInfo, Progress
    from offsider.core.options import JobDeclaration, JobOptions
    from offsider.core.payload import JobPayload
    from offsider.jobs.base import Job
    from offsider.jobs.function import AsyncJobFunction, JobFunction, job
    from offsider.jobs.lookup import lookup
    from offsider.runtime.context import JobContext, current_job
    from offsider.runtime.middleware import ClientMiddleware, Middleware, Push, ServerMiddleware
    from offsider.runtime.propagation import bind_context, context
    from offsider.worker.embed import EmbeddedWorker

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncJobFunction",
    "BatchFinished",
    "BatchSpansServers",
    "Client",
    "ClientMiddleware",
    "Config",
    "ConfigurationError",
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
    "Progress",
    "Push",
    "PushCanceled",
    "QueueFull",
    "RedisFailure",
    "RedisRefused",
    "RedisUnavailable",
    "Reschedule",
    "ResultTimeout",
    "ServerMiddleware",
    "Shutdown",
    "Skip",
    "SoftTimeout",
    "TooManyReschedules",
    "UnknownBatch",
    "UnknownJob",
    "UnsupportedServer",
    "bind_context",
    "configure_client",
    "context",
    "current_job",
    "job",
    "lookup",
]

_ELSEWHERE = {
    "AsyncClient": "client",
    "AsyncJobFunction": "jobs.function",
    "Client": "client",
    "ClientMiddleware": "runtime.middleware",
    "Config": "config.config",
    "EmbeddedWorker": "worker.embed",
    "Extension": "config.config",
    "FailedRun": "core.job_id",
    "Installation": "config.installation",
    "Job": "jobs.base",
    "JobContext": "runtime.context",
    "JobDeclaration": "core.options",
    "JobFunction": "jobs.function",
    "JobId": "core.job_id",
    "JobInfo": "core.job_id",
    "JobOptions": "core.options",
    "JobPayload": "core.payload",
    "Middleware": "runtime.middleware",
    "Progress": "core.job_id",
    "Push": "runtime.middleware",
    "ServerMiddleware": "runtime.middleware",
    "bind_context": "runtime.propagation",
    "configure_client": "config.default",
    "context": "runtime.propagation",
    "current_job": "runtime.context",
    "job": "jobs.function",
    "lookup": "jobs.lookup",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"offsider.{_ELSEWHERE.get(name, 'core.errors')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
