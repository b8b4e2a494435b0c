"""Marks of deploys, which charts show as lines, so that everybody sees what a release has changed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from offsider.core.errors import ConfigurationError
from offsider.storage import execution_metrics
from offsider.wiring.config import Config
from offsider.wiring.default import default_config


@dataclass(frozen=True, slots=True)
class DeployMark:
    """A deploy. ``at`` is its minute in epoch seconds."""

    at: float
    label: str


class Deploys:
    """The deploys of one installation.

    Args:
        config: which server; default: this process's.
    """

    def __init__(self, config: Config | None = None) -> None:
        self._config = config if config is not None else default_config()
        self._redis = self._config.shared_redis()

    def mark(self, label: str = "", at: float | None = None) -> bool:
        """Note a deploy. False when the same label was noted within the last minute, or its minute has one already.

        Args:
            label: what was deployed; default: hash and subject of the last commit, by ``git``.
            at: epoch seconds; default: now.

        Raises:
            ConfigurationError: no label is given, and there is no commit to take one from.
        """
        moment = datetime.fromtimestamp(self._config.clock.now() if at is None else at, UTC)
        return execution_metrics.mark(self._redis, label or label_of_commit(), moment)

    def marks(self, since: float, until: float) -> Sequence[DeployMark]:
        """The deploys between two moments in epoch seconds, by time."""
        found = execution_metrics.marks(
            self._redis, datetime.fromtimestamp(since, UTC), datetime.fromtimestamp(until, UTC)
        )
        return [DeployMark(at.timestamp(), label) for at, label in found]


def label_of_commit() -> str:
    """Short hash and subject of the last commit of the current folder, as Sidekiq labels a deploy."""
    command = ("git", "log", "-1", "--format=%h %s")
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603  # our words
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(
            f"no label for the deploy: `{' '.join(command)}` gave none ({error}); name one yourself"
        ) from error
    return found.stdout.strip()
