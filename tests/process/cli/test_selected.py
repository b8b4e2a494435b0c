"""Workers that select jobs serve the queues to which the current rules route them."""

from __future__ import annotations

import pytest

from tests.process.cli.commands import SHOP, offsider
from tests.process.cli.test_shards import SHARDS
from tests.process.stored import push, waiting
from tests.waiting import wait_for

CHOSEN = """
    from offsider import job
    from tests.process.jobs import begin
    from tests.process.ledger import note

    @job(name="Urgent", urgency="high")
    def urgent():
        note("end", begin())

    @job(name="Beside", tags=["mail"])
    def beside():
        note("end", begin())

    @job(name="Calm")
    def calm():
        note("end", begin())
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "offsider.toml").write_text(SHARDS)
    return tmp_path


def queues(folder, *options, **environ):
    ended = offsider(folder, "worker", "--list-queues", *options, **environ)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


def refused(folder, *options, **environ):
    ended = offsider(folder, "worker", *options, **environ)
    assert (ended.returncode, ended.stdout) == (1, "")
    return ended.stderr


def test_queries_select_jobs_and_rules_select_their_queues(folder):
    assert queues(folder, "--select", "urgency=high") == ["urgent"]
    assert queues(folder, "--select", "tags=mail", "--select", "name=report") == ["urgent", "default"]
    assert queues(folder, "--select", "urgency=high", "--negate") == ["default"]
    assert queues(folder, "--select", "*", OFFSIDER_ROUTING_RULES="[]") == ["default", "low"]


def test_a_shard_selects_on_its_own_server(folder):
    assert queues(folder, "--shard", "urgent") == ["urgent"]
    assert queues(folder, "--shard", "bulk", "--select", "*") == ["heavy"]


def test_named_queues_override_the_selection_of_a_shard(folder):
    assert queues(folder, "--shard", "urgent", "-q", "a") == ["a"]
    assert queues(folder, "--shard", "urgent", OFFSIDER_WORKER_QUEUES="c") == ["c"]


def test_a_query_without_queues_to_serve_is_refused_with_the_reason(folder):
    assert refused(folder, "--select", "tags=none") == (
        "offsider: --select 'tags=none' selects none of 3 declared jobs, so there is no queue to serve: "
        "'offsider jobs list' shows their characteristics\n"
    )
    assert "its jobs go to heavy of the server bulk, and this worker serves main" in refused(
        folder, "--select", "resource_boundary=cpu"
    )
    assert "with --negate no queue of a declared job is left" in refused(folder, "--select", "*", "--negate")
    (folder / "empty.py").write_text("")
    assert "the application declares no jobs" in refused(folder, "-r", "empty", "--select", "*")
    (folder / "calm.py").write_text("from offsider import job\n\n\n@job\ndef calm(): ...\n")
    assert "the shard urgent ('urgency=high') selects none" in refused(
        folder, "--dry-run", "--shard", "urgent", "-r", "calm"
    )


def test_an_unknown_shard_is_refused_with_the_configured_names(folder):
    assert refused(folder, "--shard", "urgnt") == (
        "offsider: there is no shard 'urgnt' (did you mean 'urgent'?); there are urgent, bulk, catchall\n"
    )


@pytest.mark.parametrize("options", [(), ("-p", "2")], ids=["one", "two"])
def test_a_worker_runs_selected_jobs_and_warns_about_others(workers, ledger, stored, options):
    app = workers.write(CHOSEN)
    rules = '[["urgency=high", "first"], ["tags=mail", "first"], ["*", "last"]]'
    worker = workers.start("--select", "urgency=high", *options, app=app, environ={"OFFSIDER_ROUTING_RULES": rules})
    output = worker.until_says("which it does not select")
    assert "--select 'urgency=high' serves the queue first with all its jobs, including Beside" in output
    left = push(stored, "Calm", queue="last")
    run = [push(stored, name, queue="first") for name in ("Urgent", "Beside")]
    wait_for(lambda: {note.jid for note in ledger.notes("end")} == set(run))
    assert [job["jid"] for job in waiting(stored, "last")] == [left]
    worker.stopped()
