"""Stranded jobs wait in the schedule, where Ruby sees them, and run in Ruby when it serves the queue."""

from __future__ import annotations

import signal

import pytest

from tests.waiting import wait_for

pytestmark = pytest.mark.needs("redis-server")


def test_a_quiet_ruby_process_gets_no_job_back_and_the_next_one_does(raw_redis, processes, ruby, seen):
    quiet = processes.sidekiq("-q", "shared")
    wait_for(lambda: "shared" in ruby("Sidekiq::ProcessSet.new.flat_map { |process| process['queues'] }"))
    quiet.send_signal(signal.SIGTSTP)
    wait_for(lambda: ruby("Sidekiq::ProcessSet.new.any?(&:stopping?)"))
    processes.offsider("-q", "shared")
    jid = ruby('Sidekiq::Client.push("class" => "RubyEcho", "queue" => "shared", "args" => [], "retry" => false)')
    wait_for(lambda: [b"stranded_at" in raw for raw in raw_redis.zrange("schedule", 0, -1)] == [True])
    processes.sidekiq("-q", "shared")
    wait_for(lambda: seen(jid) == [["ruby", [], None]])


def test_a_job_unknown_to_our_workers_waits_in_the_schedule_visible_to_ruby(client, raw_redis, processes, ruby):
    processes.offsider("-q", "alone")
    jid = client.push({"class": "Unknown", "args": [], "queue": "alone"})
    wait_for(lambda: ruby("Sidekiq::ScheduledSet.new.map(&:jid)") == [jid])
    assert jid not in ruby("Sidekiq::RetrySet.new.map(&:jid)")
    assert ruby("Sidekiq::ScheduledSet.new.first.queue") == "alone"
