"""The language of the pushing process, set in the job too: Sidekiq's I18n middleware with its key ``locale``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Push

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

    def _save(self, push: Push, call_next: Callable[[Push], Push | None]) -> Push | None:
        language = self._current() if push.reason == "push" else None
        if language is not None:
            cast("dict[str, Any]", push.payload).setdefault(_KEY, language)
        return call_next(push)

    def _load(self, job: JobContext, call_next: Callable[[JobContext], object]) -> object:
        language: object = job.payload.get(_KEY)
        if not isinstance(language, str) or not language:
            return call_next(job)
        with self._use(language):
            return call_next(job)
