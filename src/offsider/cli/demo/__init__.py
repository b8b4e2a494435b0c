"""``offsider demo``: a small real application, run on a server of its own, that counts what became of each job.

Reading order: `jobs`, `ledger` (who wrote down what), `account` (the last line),
`conductor` (the order of everything).
"""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["demo"]


@click.command(short_help="Watch a small application at work, on a server of its own.")
@click.option("--seconds", type=click.FloatRange(min=0.5), help="End by itself after so long.  [default: at Ctrl-C]")
@click.option(
    "--concurrency",
    "-c",
    type=click.IntRange(1, 200),
    default=5,
    show_default=True,
    help="Jobs that each of the two workers runs at a time.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep server, ledger and logs here; what an earlier demo left behind is run too.  "
    "[default: a temporary folder]",
)
@click.option("--picture", type=click.Path(path_type=Path, dir_okay=False), hidden=True)
@click.pass_context
def demo(
    context: click.Context, seconds: float | None, concurrency: int, folder: Path | None, picture: Path | None
) -> None:
    """Watch a small application at work, on a server of its own.

    Starts a Valkey server, two worker processes and a few producers. Texts are counted, words looked up by
    asynchronous jobs, cards posted to a shop that is often closed, summaries printed later, covers fail for
    good, and now and then something arrives that is no job at all. In the middle a worker is killed with -9,
    and its jobs come back.

    The last line adds up what became of all jobs, from a ledger that the producers and the jobs wrote:
    done, dead (in the dead set), left (still stored), lost. The exit code is 1 when a job was lost.
    """
    # The application declares jobs when it is imported: not for every `offsider --help`.
    from offsider.cli.demo.conductor import Conductor
    from offsider.core.errors import OffsiderError

    try:
        account = Conductor(folder, seconds=seconds, concurrency=concurrency, picture=picture).run()
    except OffsiderError as error:
        raise click.ClickException(str(error)) from error
    context.exit(1 if account.lost else 0)
