"""Deploy marks, which charts show as vertical lines to make the effect of a release visible."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.storage import execution_metrics


@dataclass(frozen=True, slots=True)
class DeployMark:
    """A deploy. ``at`` is the start of its minute, in epoch seconds."""

    at: float
    label: str


class Deploys:
    """The deploys of one installation.

    Args:
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._here = Installation.of(config)
        self._redis = self._here.redis

    def mark(self, label: str = "", at: float | None = None) -> bool:
        """Record a deploy. Returns False if the last minute has the same label, or this minute already has a deploy.

        Args:
            label: name of the release; default: hash and subject of the last commit, from ``git``.
            at: epoch seconds; default: now.

        Raises:
            ConfigurationError: no label is given, and ``git`` finds no commit.
        """
        moment = datetime.fromtimestamp(self._here.config.clock.now() if at is None else at, UTC)
        return execution_metrics.mark(self._redis, label or label_of_commit(), moment)

    def marks(self, since: float, until: float) -> Sequence[DeployMark]:
        """Return the deploys between two times in epoch seconds, sorted by time."""
        found = execution_metrics.marks(
            self._redis, datetime.fromtimestamp(since, UTC), datetime.fromtimestamp(until, UTC)
        )
        return [DeployMark(at.timestamp(), label) for at, label in found]


def label_of_commit() -> str:
    """Return short hash and subject of the last commit in the current folder, the label that Sidekiq uses."""
    command = ("git", "log", "-1", "--format=%h %s")
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603  # fixed arguments
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(
            f"no label for the deploy: `{' '.join(command)}` failed ({error}); pass a label"
        ) from error
    return found.stdout.strip()
