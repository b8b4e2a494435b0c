"""The text of metrics, read back by Prometheus's own parser."""

from prometheus_client.parser import text_string_to_metric_families

from offsider.prometheus import Family, Sample
from offsider.prometheus.text import text_of

ODD = 'back\\slash "quoted"\nnext line é'


def parsed(*families):
    return list(text_string_to_metric_families(text_of(families)))


def test_the_text_is_parsed_back_by_prometheus():
    (family,) = parsed(
        Family("queue_size", "gauge", "Jobs.", (Sample(3, {"name": "low"}), Sample(0.25, {"name": "x"})))
    )
    assert (family.name, family.type, family.documentation) == ("queue_size", "gauge", "Jobs.")
    assert [(sample.labels, sample.value) for sample in family.samples] == [({"name": "low"}, 3), ({"name": "x"}, 0.25)]


def test_the_lines_follow_the_format():
    assert text_of([Family("runs_total", "counter", "Runs.", (Sample(7),))]) == (
        "# HELP runs_total Runs.\n# TYPE runs_total counter\nruns_total 7.0\n"
    )


def test_odd_letters_survive():
    (family,) = parsed(Family("size", "gauge", ODD, (Sample(1, {"class": ODD}),)))
    assert family.samples[0].labels == {"class": ODD}
    assert family.documentation == ODD.replace('\\"', '"')


def test_invalid_text_can_be_sent_too():
    (family,) = parsed(Family("size", "gauge", "", (Sample(1, {"class": "a\ud800"}),)))
    assert family.samples[0].labels == {"class": "a?"}


def test_a_name_without_end_is_cut():
    (family,) = parsed(Family("size", "gauge", "", (Sample(1, {"class": "x" * 1_000_000}),)))
    assert family.samples[0].labels == {"class": "x" * 500}


def test_a_counter_keeps_its_established_name():
    assert "\nsidekiq_job_processed 7.0\n" in text_of([Family("sidekiq_job_processed", "counter", "", (Sample(7),))])


def test_a_family_without_numbers_is_still_described():
    (family,) = parsed(Family("size", "gauge", "Jobs.", ()))
    assert family.samples == []
