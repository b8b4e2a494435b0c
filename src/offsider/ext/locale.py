"""The language of the pushing process, set in the job too: Sidekiq's I18n middleware with its key ``locale``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware, Push

_KEY = "locale"


class Locale:
    """Extension that runs a job in the language of the pushing process.

    ::

        from django.utils import translation

        config.use(Locale(translation.get_language, translation.override))

    Args:
        current: returns the current language, such as ``"de"``, or None.
        use: returns a context manager that sets a language.
        thread_bound: ``use`` sets it for a thread, and not in a context variable as Django does. Async jobs share a
            thread, so those that have a language are then refused.

    Attributes:
        sets_context: it also runs in the process of an isolated job.
    """

    name = "locale"
    sets_context = True

    def __init__(
        self,
        current: Callable[[], str | None],
        use: Callable[[str], AbstractContextManager[object]],
        *,
        thread_bound: bool = False,
    ) -> None:
        self._current = current
        self._use = use
        self.thread_bound = thread_bound

    def install(self, config: Config) -> None:
        """Add both middlewares. Called by ``config.use``."""
        config.client_middleware.add(self._save)
        config.server_middleware.prepend(self)

    def _save(self, push: Push) -> Middleware:
        language = self._current() if push.reason == "push" else None
        if language is not None:
            cast("dict[str, Any]", push.payload).setdefault(_KEY, language)
        yield

    def concerns(self, job: JobContext) -> bool:
        """Return whether the job has a language."""
        language: object = job.payload.get(_KEY)
        return isinstance(language, str) and bool(language)

    def __call__(self, job: JobContext) -> Middleware:
        """Run a job in its language."""
        with self._use(cast("dict[str, Any]", job.payload)[_KEY]):
            yield
