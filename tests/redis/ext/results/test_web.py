"""The tab of finished jobs, and the state of a job in the search."""

from __future__ import annotations

from offsider import job
from offsider.config.installation import Installation
from offsider.ext.results import web
from offsider.ext.results.store import check_results
from offsider.inspector.finding import Severity
from offsider.jobs import registry
from offsider.testing import RunningWorker

# Not in the registry of other tests; a fixture of conftest.py registers them.
with registry.isolated():

    @job(name="<b>Kept</b>/1", keep_result=60)
    def kept(size=1):
        return "x" * size

    @job(name="Echoed", keep_result=60, track="arguments")
    def echoed(text):
        return len(text)

    @job(name="Broken", keep_result=60, retry=0)
    def broken():
        raise ValueError("no")


def run(config, *jobs):
    with RunningWorker(config) as worker:
        jids = [enqueue() for enqueue in jobs]
        worker.wait()
    return jids


def test_finished_jobs_are_listed_by_class(ask, config):
    assert "No tracked job has finished." in ask("/finished").body.decode()
    jid, other = run(config, kept.enqueue, broken.enqueue)
    page = ask("/finished").body.decode()
    assert "&lt;b&gt;Kept&lt;/b&gt;/1" in page
    assert "/finished/classes/%3Cb%3EKept%3C%2Fb%3E%2F1" in page
    page = ask("/finished/classes/Broken").body.decode()
    assert f"/finished/jobs/{other}" in page
    assert "dead" in page
    page = ask(f"/finished/jobs/{other}").body.decode()
    assert "ValueError: no" in page
    assert "Failed runs" in page
    assert "succeeded" in ask(f"/finished/jobs/{jid}").body.decode()
    assert ask("/finished/jobs/unknown").status == 404


def test_a_job_that_waits_is_cancelled_from_its_page(ask, config):
    path = f"/finished/jobs/{(jid := kept.enqueue())}"
    assert web.job_facts({"jid": jid, "keep_result": 60})["Tracked"].path == path
    assert web.job_facts({"jid": jid}) == {}
    assert f'action="{path}/cancel"' in ask(path).body.decode()
    assert ask(f"{path}/cancel", method="POST").status == 303
    assert jid.status() == "cancelled"
    assert "/cancel" not in ask(path).body.decode()
    assert ask(f"{path}/cancel", method="POST").status == 303  # "The job has ended"


def test_a_search_by_jid_shows_a_job_that_has_finished(ask, config):
    (jid,) = run(config, kept.enqueue)
    page = ask("/jobs", query=f"text={jid}").body.decode()
    assert "&lt;b&gt;Kept&lt;/b&gt;/1 succeeded 20" in page
    assert " ms on host " in page
    assert "succeeded" not in ask("/jobs", query=f"text={'f' * 24}").body.decode()


def test_doctor_reports_classes_with_large_results(config):
    run(config, kept.enqueue)
    assert list(check_results(Installation.of(config))) == []
    run(config, lambda: kept.enqueue(400_000))
    (finding,) = check_results(Installation.of(config))
    assert finding.severity is Severity.WARN
    assert finding.what == "large results or arguments: <b>Kept</b>/1 (200 kB) on average"


def test_doctor_counts_kept_arguments(config):
    run(config, lambda: echoed.enqueue("x" * 150_000))
    (finding,) = check_results(Installation.of(config))
    assert finding.what == "large results or arguments: Echoed (150 kB) on average"
