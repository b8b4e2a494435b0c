"""The structlog recipe of docs/logging.md, exactly as printed, in a real worker."""

from __future__ import annotations

import json

from tests.docs.snippets import ROOT, snippets
from tests.process.stored import push

APPLICATION = """
def configure(config):
    configure_structlog(config)


@job(name="Speaking")
def speaking():
    with current_job().measure("db"):
        structlog.get_logger("shop").info("sold", pieces=3)
    raise ValueError("boom")
"""


def test_lines_of_jobs_and_of_the_worker_use_one_chain(workers, stored):
    (recipe,) = [
        snippet.text
        for snippet in snippets((ROOT / "docs" / "logging.md").read_text())
        if "import structlog" in snippet.text
    ]
    worker = workers.start(text=f"from offsider import Config, current_job, job\n{recipe}\n{APPLICATION}")
    jid = push(stored, "Speaking", retry=False)
    worker.until_says('"job_status": "fail"')
    output = worker.stopped()

    entries = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    mine = [entry for entry in entries if entry.get("jid") == jid]
    sold = next(entry for entry in mine if entry["event"] == "sold")
    assert (sold["pieces"], sold["class"], sold["queue"], sold["level"]) == (3, "Speaking", "default", "info")
    statuses = [entry["job_status"] for entry in mine if "job_status" in entry]
    assert statuses == ["start", "fail"]
    failed = next(entry for entry in mine if entry.get("job_status") == "fail")
    assert (failed["error_class"], failed["error_message"]) == ("ValueError", "boom")
    assert 0 <= failed["db_duration_s"] < 60
    assert any("ValueError: boom" in entry.get("exception", "") for entry in mine if entry["level"] == "warning")
