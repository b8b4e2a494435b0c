"""The demo's workers are real processes of this command line."""

import signal
import time

from offsider.cli.demo.workers import Worker


def test_a_worker_ends_with_code_0_at_term_and_leaves_a_log(embedded_url, tmp_path):
    worker = Worker(1, tmp_path, embedded_url, 2)
    until = time.monotonic() + 20
    while "running" not in worker.last_words() and time.monotonic() < until:
        time.sleep(0.02)
    assert worker.exit_code is None

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0, worker.last_words(20)
    assert worker.exit_code == 0


def test_a_worker_that_cannot_start_says_why(tmp_path):
    worker = Worker(2, tmp_path, "redis://localhost:1/0", 2)

    assert worker.wait() != 0
    assert "localhost:1" in worker.last_words(20)
