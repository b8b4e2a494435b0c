"""``offsider demo``: a small application on its own server, and an account of every job.

Reading order: `jobs`, `ledger`, `loop` with the kill.
"""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["demo"]


@click.command(short_help="Watch a small application at work, on its own server.")
@click.option("--seconds", type=click.FloatRange(min=0.5), help="Stop after this many seconds.  [default: at Ctrl-C]")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="A new folder that keeps server, ledger and logs.  [default: a temporary one]",
)
def demo(seconds: float | None, folder: Path | None) -> int:
    """Watch a small application at work, on its own server.

    Starts a Valkey server, two workers and the web UI, and pushes the orders of a small shop. Some jobs succeed,
    some fail and are retried, some fail until they are dead. In the middle a worker is killed with -9, another
    worker takes its place, and the interrupted jobs run again.

    The last line of the output counts what became of every job, from a ledger that the demo and its jobs write:
    done, dead (in the dead set), left (still stored), lost. The exit code is 1 if a job was lost.
    """
    # Importing the loop declares the jobs of the demo, which other commands must not see.
    from offsider.cli.demo.loop import run

    if folder is not None and folder.exists():
        raise click.UsageError(f"{folder} exists; choose a new folder for --folder")
    return 1 if run(folder, seconds=seconds).lost else 0
