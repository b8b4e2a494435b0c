"""``offsider why`` and ``cancel``: why a job does not run, and the end of a run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from offsider.cli.command import (
    CONNECTION,
    JSON,
    ConnectionOptions,
    command,
    myself,
    output,
    report_failed_servers,
    require,
    server,
)
from offsider.cli.failure import give_up
from offsider.cli.text import say
from offsider.core.wording import shell_words
from offsider.inspector import WorkSet
from offsider.inspector.process import SIGNAL_SECONDS
from offsider.inspector.why import NextStep, Reason, judge, read
from offsider.screens import audit

_POLL_SECONDS = 0.1
_SERVER = "Server of the job. Default: all servers of the configuration."


@command(
    click.argument("jid"),
    *CONNECTION,
    server(_SERVER),
    require("Application with the extension Results, to find jobs that have ended too. Default: worker.require."),
    JSON,
    name="why",
)
def why(connection: ConnectionOptions, jid: str, *, as_json: bool) -> int:
    """Show why a job does not run, and what to do.

    Exits with 1 if no job with this id is stored.
    """
    start = connection.installation_with_extensions()
    read_from, away = connection.each_server(start, partial(read, jid))
    code = report_failed_servers(away, "cannot read the jobs of")
    name = next((name for name, evidence in read_from.items() if evidence.is_found), next(iter(read_from)))
    evidence = read_from[name]
    reasons = judge(evidence)
    data = {
        "jid": jid,
        "server": name,
        "where": evidence.where,
        "class": "" if evidence.record is None else evidence.record.display_class,
        "found": evidence.is_found,
        "reasons": [_data(reason) for reason in reasons],
    }
    output(data, _lines(data, reasons), as_json=as_json)
    return code if evidence.is_found else 1


def _data(reason: Reason) -> dict[str, Any]:
    return asdict(reason) | {"steps": [step._asdict() for step in reason.steps]}


def _lines(data: Mapping[str, Any], reasons: Sequence[Reason]) -> Iterator[str]:
    if data["class"]:
        yield f"{data['class']} {data['jid']}"
    steps: dict[NextStep, None] = {}
    for reason in reasons:
        yield reason.text
        steps |= dict.fromkeys(reason.steps)
    if steps:
        yield ""
    yield from map(str, steps)


@command(click.argument("jid"), *CONNECTION, server(_SERVER))
def cancel(connection: ConnectionOptions, jid: str) -> int:
    """Cancel the run of a job.

    It fails with JobCancelled, and moves to the dead set without a retry.

    Waits a few seconds for its end. Python cannot interrupt a system call or C code: such a run ends when it returns
    from there. Other jobs of the process go on.
    """
    start = connection.installation()
    works, away = connection.each_server(start, lambda server: WorkSet(server).find_work(jid))
    code = report_failed_servers(away, "cannot read the running jobs of")
    name, found = next(((name, work) for name, work in works.items() if work is not None), ("", None))
    if found is None:
        return give_up(f"job {jid} is not running; see offsider why {shell_words(jid)}")
    found.cancel()
    outcome = f"Canceling the run of {found.record.display_class} in {found.process}"
    audit.done(start.for_server(name), "job.cancel", outcome, who=myself(), subject=jid, count=1)
    until = time.monotonic() + SIGNAL_SECONDS
    while found.lasts():
        if time.monotonic() >= until:
            return give_up(
                f"the run of {found.record.display_class} in {found.process} was asked to end, but still runs: it is "
                f"in a system call or in C code. offsider stop {found.process} ends its process and requeues its jobs"
            )
        time.sleep(_POLL_SECONDS)
    say(f"Canceled: the run of {found.record.display_class} in {found.process} has ended.")
    return code
