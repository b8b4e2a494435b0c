"""Measures the time that jobs spend in databases and Redis: ``db_duration_s`` and ``redis_duration_s`` in the log.

The worker hooks into the libraries that the application has loaded at its start: Django's database connections,
SQLAlchemy's engines, and the clients of redis-py, which offsider itself does not use.
"""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from offsider.core.wording import first_time
from offsider.runtime.context import current_job_or_none

_BLOCK = "_offsider_measured"


def measure_loaded() -> None:
    """Hook into the loaded libraries, once per process."""
    for module, hook in _HOOKS.items():
        if module in sys.modules and first_time("measured library", module):
            hook(sys.modules[module])


def _measure_django(_signals: Any) -> None:
    from django.db.backends.signals import connection_created

    def connected(connection: Any, **_: object) -> None:
        if _django_query not in connection.execute_wrappers:
            connection.execute_wrappers.append(_django_query)

    connection_created.connect(connected, weak=False)


def _django_query(execute: Callable[..., Any], sql: str, params: object, many: bool, context: object) -> Any:  # noqa: FBT001
    job = current_job_or_none()
    if job is None:
        return execute(sql, params, many, context)
    with job.measure("db"):
        return execute(sql, params, many, context)


def _measure_sqlalchemy(engine: Any) -> None:
    from sqlalchemy import event

    def begin(
        _connection: object, _cursor: object, _sql: object, _parameters: object, context: Any, _many: object
    ) -> None:
        job = current_job_or_none()
        if job is not None and context is not None:
            block = job.measure("db")
            block.__enter__()
            setattr(context, _BLOCK, block)

    def end(context: Any) -> None:
        block = context.__dict__.pop(_BLOCK, None) if context is not None else None
        if block is not None:
            block.__exit__(None, None, None)

    event.listen(engine.Engine, "before_cursor_execute", begin)
    event.listen(engine.Engine, "after_cursor_execute", lambda *arguments: end(arguments[4]))
    event.listen(engine.Engine, "handle_error", lambda failure: end(failure.execution_context))


def _measure_redis(*methods: str) -> Callable[[Any], None]:
    def hook(module: Any) -> None:
        for method in methods:
            name, _, attribute = method.partition(".")
            setattr(getattr(module, name), attribute, _measured(getattr(getattr(module, name), attribute)))

    return hook


def _measured(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that sends a command; sync or async, as the original."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        job = current_job_or_none()
        if job is None:
            return original(*args, **kwargs)
        with job.measure("redis"):
            return original(*args, **kwargs)

    @functools.wraps(original)
    async def acall(*args: Any, **kwargs: Any) -> Any:
        job = current_job_or_none()
        if job is None:
            return await original(*args, **kwargs)
        with job.measure("redis"):
            return await original(*args, **kwargs)

    return acall if inspect.iscoroutinefunction(original) else call


_HOOKS: dict[str, Callable[[Any], None]] = {
    "django.db": _measure_django,
    "sqlalchemy.engine": _measure_sqlalchemy,
    "redis.client": _measure_redis("Redis.execute_command", "Pipeline.execute", "Pipeline.immediate_execute_command"),
    "redis.cluster": _measure_redis("RedisCluster.execute_command", "ClusterPipeline.execute"),
    "redis.asyncio.client": _measure_redis(
        "Redis.execute_command", "Pipeline.execute", "Pipeline.immediate_execute_command"
    ),
    "redis.asyncio.cluster": _measure_redis("RedisCluster.execute_command", "ClusterPipeline.execute"),
}
