"""A job that kills its process runs three times, the last time alone; the others beside it come to no harm."""

from __future__ import annotations

from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
GOOD = 80
APP = """
    import os, signal, time
    from offsider import current_job, job
    from tests.process import jobs
    from tests.process.ledger import note

    def configure(config):
        jobs.configure(config)
        config.on("job_poisoned", lambda news: note("poisoned", word=len(news.identities)))

    @job(name="Pill")
    def pill():
        note("pill", current_job().jid)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_pill_among_longer_jobs_is_buried_alone(workers, stored, ledger):
    good = {push(stored, "Short", number, 0.1 + number % 5 * 0.1) for number in range(GOOD // 2)}
    pill = push(stored, "Pill", dead=False)
    good |= {push(stored, "Short", number, 0.1 + number % 5 * 0.1) for number in range(GOOD // 2)}
    fleet, ended = [workers.start("-c", "5", text=APP, environ=FAST) for _ in range(2)], []

    def all_done() -> bool:
        for place, worker in enumerate(fleet):
            if not worker.runs:
                ended.append(worker)
                fleet[place] = workers.start("-c", "5", text=APP, environ=FAST, wait=False)
        return len(ended) == 3 and set(ledger.counts("end")) >= good and bool(ledger.notes("death"))

    wait_for(all_done, 90, "every good job has ended and the pill is buried")

    assert len(ledger.notes("pill")) == 3
    (dead,) = sorted_set(stored, "dead")
    assert (dead["jid"], dead["error_class"], dead["interrupted_count"]) == (pill, "offsider.PoisonPill", 3)
    assert dead["error_message"].startswith("3 processes crashed while they had this job, the last one")
    assert ledger.words("poisoned") == ["3"]
    assert [item.jid for item in ledger.notes("death")] == [pill]
    for worker in fleet:
        worker.until_running()
        worker.stopped()
    assert waiting(stored) == private(stored) == sorted_set(stored, "retry") == []
