"""The result of one check."""

from offsider.inspector.finding import Severity, error, ok, warn, worst


def test_the_whole_is_as_bad_as_its_worst():
    well, odd = ok("a", "well"), warn("b", "odd", cause="…", action="…")
    assert worst([]) is worst([well]) is Severity.OK
    assert worst([well, odd]) is Severity.WARN
    assert worst([odd, error("c", "wrong", cause="…", action="…"), well]) is Severity.ERROR


def test_the_severity_is_the_exit_code():
    assert [int(severity) for severity in Severity] == [0, 1, 2]
