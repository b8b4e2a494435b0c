"""The language of the pushing process, set in the job too: Sidekiq's I18n middleware with its key ``locale``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
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
    """

    name = "locale"

    def __init__(self, current: Callable[[], str | None], use: Callable[[str], AbstractContextManager[object]]) -> None:
        self._current = current
        self._use = use

    def install(self, config: Config) -> None:
        """Add both middlewares. Called by ``config.use``."""
        config.client_middleware.add(self._save)
        config.server_middleware.prepend(self._load)

    def _save(self, push: Push) -> Middleware:
        language = self._current() if push.reason == "push" else None
        if language is not None:
            cast("dict[str, Any]", push.payload).setdefault(_KEY, language)
        yield

    def _load(self, job: JobContext) -> Middleware:
        language: object = job.payload.get(_KEY)
        with self._use(language) if isinstance(language, str) and language else nullcontext():
            yield
