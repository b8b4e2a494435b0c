"""The content of a scrape, read back by Prometheus's own parser."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from offsider.config.installation import Installation
from offsider.core.errors import RedisRefused
from offsider.core.payload import encode
from offsider.fleet.metrics import read_families
from offsider.prometheus import Family, Sample
from offsider.prometheus.text import text_of
from tests.redis.inspector.fleets import seed

PAGE = Path(__file__).parents[3] / "docs" / "monitoring.md"


@pytest.fixture
def scrape(config, raw_redis):
    seed(raw_redis, Installation.of(config).redis)
    config.client.spool = ":memory:"
    text = text_of(read_families(Installation.of(config)))
    Installation.of(config).close()
    return text


@pytest.fixture
def found(scrape):
    families = text_string_to_metric_families(scrape)
    return {(sample.name, *sorted(sample.labels.values())): sample.value for one in families for sample in one.samples}


def test_every_metric_of_the_page_exists(scrape):
    listed = set(re.findall(r"^\| (`.+?`) \|", PAGE.read_text("utf-8"), re.MULTILINE))
    named = {name for names in listed for name in re.findall(r"`((?:sidekiq|offsider)_\w+)`", names)}
    exported = {line.split()[2] for line in scrape.splitlines() if line.startswith("# TYPE ")}
    assert len(named) > 50
    assert named <= exported


def test_it_exports_the_state_in_redis(found):
    assert found["sidekiq_processed_jobs_total",] == 70
    assert found["sidekiq_failed_jobs_total",] == 7
    assert found["sidekiq_processes",] == 3
    assert found["sidekiq_workers",] == found["sidekiq_concurrency",] == 35
    assert found["sidekiq_busy_workers",] == 3
    assert found["sidekiq_host_processes", "false", "one"] == 1
    assert found["sidekiq_host_processes", "one", "true"] == 1
    assert found["sidekiq_host_processes_memory_usage_bytes", "false", "two"] == 4000 * 1024
    assert found["sidekiq_enqueued_jobs",] == 1
    assert found["sidekiq_scheduled_jobs",] == 3
    assert (found["sidekiq_stranded_jobs", "New"], found["sidekiq_jobs_stranded_total", "New"]) == (1, 4)
    assert found["sidekiq_jobs_expired_total", "New"] == 3
    assert found["offsider_controls", "Export", "drop"] == 1
    assert found["offsider_controlled_jobs", "Export", "drop"] == 12
    assert (found["sidekiq_retry_jobs",], found["sidekiq_dead_jobs",]) == (1, 1)
    assert found["sidekiq_queue_enqueued_jobs", "unserved"] == 1
    assert found["sidekiq_queue_processes", "unserved"] == 0
    assert found["sidekiq_queue_latency_seconds", "unserved"] == pytest.approx(30, abs=20)
    assert [found["sidekiq_queue_paused", queue] for queue in ("default", "low", "unserved")] == [1, 0, 0]
    assert [found[f"sidekiq_queue_{name}", "default"] for name in ("processes", "workers", "busy_workers")] == [
        2,
        25,
        1,
    ]  # one is quiet
    assert [found[f"sidekiq_queue_{name}", "low"] for name in ("processes", "workers", "busy_workers")] == [1, 5, 2]
    assert found["sidekiq_queue_max_processing_time_seconds", "low"] == pytest.approx(50, abs=20)
    assert ("sidekiq_queue_max_processing_time_seconds", "unserved") not in found
    assert found["sidekiq_leader_lifetime_seconds",] == pytest.approx(100, abs=20)
    assert found["sidekiq_scheduler_lag_seconds", "schedule"] == pytest.approx(10, abs=20)
    assert found["sidekiq_scheduler_lag_seconds", "retry"] == 0
    assert found["sidekiq_running_jobs", "Mail", "bulk", "low"] == 2
    assert found["sidekiq_running_jobs", "", "Mail", "default"] == 1
    assert found["sidekiq_job_enqueued", "", "Mail", "unserved"] == 1
    assert found["sidekiq_redis_memory_used_bytes",] > 0
    assert found["sidekiq_redis_memory_max_bytes",] == 0


def test_waiting_jobs_are_exact_in_short_queues_and_estimated_in_long_ones(config, raw_redis):
    redis = Installation.of(config).redis
    seed(raw_redis, redis)
    for queue, count in (("low", 40), ("default", 4_000)):
        jobs = [{"class": "Mail" if n % 4 else "Import", "args": [], "jid": f"{n:024x}"} for n in range(count)]
        raw_redis.sadd("queues", queue)
        raw_redis.lpush(redis.keys.queue(queue), *map(encode, jobs))
    text = text_of(read_families(Installation.of(config)))
    Installation.of(config).close()
    families = text_string_to_metric_families(text)
    found = {(sample.name, *sorted(sample.labels.values())): sample.value for one in families for sample in one.samples}
    assert found["sidekiq_job_enqueued", "Import", "bulk", "low"] == 10
    assert found["sidekiq_job_enqueued", "Mail", "bulk", "low"] == 30
    # Processes of two shards serve it.
    assert found["sidekiq_job_enqueued", "", "Import", "default"] == pytest.approx(1_000, rel=0.05)
    assert found["sidekiq_job_enqueued", "Mail", "bulk", "default"] == pytest.approx(3_000, rel=0.05)
    assert found["sidekiq_shard_enqueued_jobs", "bulk"] == 4_040


def test_extensions_add_metrics_and_a_failing_one_does_not_affect_the_others(config, raw_redis):
    def broken(_config):
        raise RedisRefused("WRONGTYPE of something")

    reported = []
    config.error_handlers.append(lambda error, context: reported.append(context["context"]))
    config.metric_families.append(broken)
    config.metric_families.append(
        lambda asked: [Family("own", "gauge", "Of ours.", (Sample(float(asked.config is config)),))]
    )
    assert text_of(read_families(Installation.of(config))).endswith("# HELP own Of ours.\n# TYPE own gauge\nown 1.0\n")
    assert reported == ["reading the metrics of an extension"]
    Installation.of(config).close()


def test_a_class_is_summed_over_its_queues_and_labels(found):
    assert found["sidekiq_job_processed", "Mail"] == 10
    assert found["sidekiq_job_failed", "Mail"] == 1
    assert found["sidekiq_job_execution_time_seconds", "Mail"] == 3
    assert found["sidekiq_jobs_completion_seconds_count", "", "Mail", "bulk", "high", "low", "post"] == 4
    assert found["sidekiq_jobs_completion_seconds_count", "", "", "", "Mail", "acme", "default"] == 6


def test_it_exports_the_runs_within_their_targets(found):
    assert found["sidekiq_jobs_satisfied_total", "", "Mail", "bulk", "high", "low", "post"] == 2
    assert found["sidekiq_apdex_objective",] == 0.995
    assert found["sidekiq_queue_latency_target_seconds", "low"] == 10  # jobs of high urgency have run there
    assert found["sidekiq_queue_latency_target_seconds", "default"] == 60
    assert found["sidekiq_queue_latency_target_seconds", "unserved"] == 60


def test_a_queue_of_jobs_that_may_wait_has_no_target(config, raw_redis):
    config.slo.high_queue_seconds = 0
    seed(raw_redis, Installation.of(config).redis)
    assert 'latency_target_seconds{name="low"}' not in text_of(read_families(Installation.of(config)))
    Installation.of(config).close()


def test_it_exports_the_state_of_shards(found):
    reported = {name[14:]: value for (name, *shard), value in found.items() if shard == ["bulk"]}
    assert reported == {
        "processes": 1,
        "workers": 5,
        "busy_workers": 2,
        "execution_seconds_total": 30,
        "thread_seconds_total": 100,
        "latency_ratio": 0,
        "desired_replicas": 1,
        "enqueued_jobs": 0,
    }
    assert (found["sidekiq_shard_processes", ""], found["sidekiq_shard_workers", ""]) == (1, 20)


def test_an_empty_server_can_be_scraped(config):
    families = list(text_string_to_metric_families(text_of(read_families(Installation.of(config)))))
    assert {sample.name for family in families for sample in family.samples} >= {"sidekiq_enqueued_jobs"}
    Installation.of(config).close()
