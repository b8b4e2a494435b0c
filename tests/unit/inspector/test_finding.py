"""What one check has to say."""

from offsider.inspector.doctor.finding import Severity, bad, ok, warn, worst


def test_the_whole_is_as_bad_as_its_worst():
    well, odd = ok("a", "well"), warn("b", "odd", why="…", way_out="…")
    assert worst([]) is worst([well]) is Severity.OK
    assert worst([well, odd]) is Severity.WARN
    assert worst([odd, bad("c", "wrong", why="…", way_out="…"), well]) is Severity.BAD


def test_the_severity_is_the_exit_code():
    assert [int(severity) for severity in Severity] == [0, 1, 2]
