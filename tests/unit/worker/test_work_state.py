"""Running jobs that the heartbeat shows."""

import json

from offsider.worker.work_state import WorkState
from tests.begun import begun


def test_running_jobs_are_shown_as_sidekiq_shows_them():
    state = WorkState()
    state.begin("tid1", *begun("low", b'{"class":"X"}', 1_795_216_780.9))
    state.begin("tid2", *begun("high", b"\xff no job", 1.0))
    assert state.busy == 2
    shown = {tid: work.as_sidekiq_shows() for tid, work in state.running().items()}
    assert shown["tid1"] == '{"queue":"low","payload":"{\\"class\\":\\"X\\"}","run_at":1795216780}'
    assert json.loads(shown["tid2"])["payload"] == "\ufffd no job"
    state.end("tid1")
    state.end("tid1")
    assert list(state.running()) == ["tid2"]


def test_the_durations_of_running_jobs_are_available():
    state = WorkState()
    state.begin("tid1", *begun("low", b"{}", 100.0))
    state.begin("tid2", *begun("low", b"{}", 104.5))
    state.begin("tid3", *begun("low", b"{}", 200.0))  # the clock was set back since
    assert state.under_way_seconds(105.0) == 5.5
