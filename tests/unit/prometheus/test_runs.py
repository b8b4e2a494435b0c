"""The metrics made from run counts, read back by Prometheus's own parser."""

from prometheus_client.parser import text_string_to_metric_families

from offsider.core.series import DURATION_SECONDS, Series
from offsider.prometheus import concurrency_family, running_family, series_families
from offsider.prometheus.text import text_of


def counted(**labels):
    series = Series(
        {"class": "Mail", "queue": "low", **labels},
        processed=5,
        failed=2,
        retried=1,
        run_seconds=31.5,
        cpu_seconds=0.75,
    )
    series.run_buckets[0] = 3
    series.run_buckets[DURATION_SECONDS.index(1.7)] = 1
    series.run_buckets[-1] = 1
    series.queue_seconds = 12.25
    series.queue_buckets[6] = 4
    return series


def samples(*series):
    families = text_string_to_metric_families(text_of(series_families(series)))
    return {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}


MAIL = (("class", "Mail"), ("queue", "low"))


def test_buckets_add_up_and_end_with_all_runs():
    found = samples(counted())
    assert found["sidekiq_jobs_completion_seconds_bucket", *MAIL[:1], ("le", "0.1"), MAIL[1]] == 3
    assert found["sidekiq_jobs_completion_seconds_bucket", *MAIL[:1], ("le", "2.5"), MAIL[1]] == 4
    assert found["sidekiq_jobs_completion_seconds_bucket", *MAIL[:1], ("le", "600"), MAIL[1]] == 4
    assert found["sidekiq_jobs_completion_seconds_bucket", *MAIL[:1], ("le", "+Inf"), MAIL[1]] == 5
    assert found["sidekiq_jobs_completion_seconds_count", *MAIL] == 5
    assert found["sidekiq_jobs_completion_seconds_sum", *MAIL] == 31.5
    assert found["sidekiq_jobs_queue_duration_seconds_count", *MAIL] == 4
    assert found["sidekiq_jobs_queue_duration_seconds_sum", *MAIL] == 12.25
    bounds = {key[2][1] for key in found if key[0] == "sidekiq_jobs_completion_seconds_bucket"}
    assert bounds == {"0.1", "0.25", "0.5", "1", "2.5", "5", "10", "60", "300", "600", "+Inf"}


def test_failures_retries_and_cpu_time_are_exported_by_class_and_queue():
    found = samples(counted())
    assert found["sidekiq_jobs_failed_total", *MAIL] == 2
    assert found["sidekiq_jobs_retried_total", *MAIL] == 1
    assert found["sidekiq_jobs_cpu_seconds_sum", *MAIL] == 0.75
    assert found["sidekiq_jobs_cpu_seconds_count", *MAIL] == 5


def test_jobs_without_an_enqueue_time_have_no_latency_histogram():
    found = samples(Series({"class": "Mail", "queue": "low"}, processed=1))
    assert not any(key[0].startswith("sidekiq_jobs_queue_duration") for key in found)


def test_all_series_of_a_family_have_the_same_labels():
    found = samples(counted(tenant="acme"), counted())
    assert found["sidekiq_jobs_failed_total", *MAIL, ("tenant", "acme")] == 2
    assert found["sidekiq_jobs_failed_total", *MAIL, ("tenant", "")] == 2


def test_a_label_of_an_extension_cannot_break_the_scrape():
    odd = {"feature-category": "a", "9lives": "b", "le": "c"}
    (key,) = (key for key in samples(counted(**odd)) if key[0] == "sidekiq_jobs_failed_total")
    assert set(key[1:]) == {("_9lives", "b"), ("_", "c"), ("feature_category", "a"), *MAIL}


def test_running_jobs_may_have_labels_or_none():
    families = [running_family({(): 3}), running_family({("Mail", "low", "bulk"): 1}), concurrency_family(20)]
    lines = text_of(families).splitlines()
    assert 'sidekiq_running_jobs{class="Mail",queue="low",shard="bulk"} 1.0' in lines
    assert {"sidekiq_running_jobs 3.0", "sidekiq_concurrency 20.0"} <= {*lines}
