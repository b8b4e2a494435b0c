"""Check that the Ruby processes on a server can read and show our data. A worker checks this at its start, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from offsider.inspector.doctor.finding import Finding, error, warn


def check_wire_version(written: int, rubys: Mapping[str, str]) -> Iterator[Finding]:
    """Find Ruby processes that are older than the wire version, and check whether all of them are newer.

    Older ones cannot read our timestamps and backtraces; newer ones read metrics and running jobs from other keys.

    Args:
        written: the wire version that this program writes.
        rubys: identity -> version of Sidekiq; empty before 7.0, which was the first to report it.
    """
    majors = {identity: _major(version) for identity, version in rubys.items()}
    oldest = min((major for major in majors.values() if major is not None), default=written)
    if oldest > written:
        yield warn(
            "wire version",
            f"wire_version is {written}, but all Ruby processes are Sidekiq {oldest} or newer",
            why="their pages may not show our metrics and running jobs, which newer versions store under other keys",
            fix=f"set redis.wire_version = {oldest}",
        )
    for identity, major in majors.items():
        if major is not None and major < written:
            yield error(
                "wire version",
                f"{identity} is Sidekiq {rubys[identity] or '6 or older'}, but wire_version is {written}",
                why="it cannot read times and backtraces in that format",
                fix=f"set redis.wire_version = {major}, or upgrade Sidekiq",
            )


def _major(version: str) -> int | None:
    """Return the wire version of a version of Sidekiq; None if unknown."""
    major = version.partition(".")[0] or "6"
    return int(major) if major in {"6", "7", "8"} else None
