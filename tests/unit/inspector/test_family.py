"""The text of metrics, read back by Prometheus's own parser."""

from prometheus_client.parser import text_string_to_metric_families

from offsider.inspector.family import Family, Sample, number, render

ODD = 'back\\slash "quoted"\nnext line é'


def parsed(*families):
    return list(text_string_to_metric_families(render(families)))


def test_what_is_written_is_what_prometheus_reads():
    (family,) = parsed(
        Family("queue_size", "gauge", "Jobs.", (Sample(3, {"name": "low"}), Sample(0.25, {"name": "x"})))
    )
    assert (family.name, family.type, family.documentation) == ("queue_size", "gauge", "Jobs.")
    assert [(sample.labels, sample.value) for sample in family.samples] == [({"name": "low"}, 3), ({"name": "x"}, 0.25)]


def test_the_lines_are_as_the_format_says():
    assert render([Family("runs_total", "counter", "Runs.", (Sample(7),))]) == (
        "# HELP runs_total Runs.\n# TYPE runs_total counter\nruns_total 7\n"
    )


def test_odd_letters_survive():
    (family,) = parsed(Family("size", "gauge", ODD, (Sample(1, {"class": ODD}),)))
    assert family.samples[0].labels == {"class": ODD}
    assert family.documentation == ODD.replace('\\"', '"')


def test_what_is_no_text_can_be_sent_too():
    (family,) = parsed(Family("size", "gauge", "", (Sample(1, {"class": "a\ud800"}),)))
    assert family.samples[0].labels == {"class": "a?"}


def test_a_name_without_end_is_cut():
    (family,) = parsed(Family("size", "gauge", "", (Sample(1, {"class": "x" * 1_000_000}),)))
    assert family.samples[0].labels == {"class": "x" * 500}


def test_numbers_keep_what_they_say():
    assert [number(value) for value in (0, 12, 1.0, 0.1, 1e-9, 2**60, float("inf"))] == [
        "0", "12", "1", "0.1", "1e-09", "1152921504606846976", "+Inf",
    ]  # fmt: skip


def test_a_family_without_numbers_is_still_described():
    (family,) = parsed(Family("size", "gauge", "Jobs.", ()))
    assert family.samples == []
