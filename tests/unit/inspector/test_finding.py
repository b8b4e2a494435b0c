"""The severity of an examination is that of its worst finding, and the exit code of ``offsider doctor``."""

from offsider.inspector.finding import Severity, error, warn, worst


def test_the_whole_is_as_bad_as_its_worst():
    odd, wrong = warn("b", "odd", cause="…", actions=("…",)), error("c", "wrong", cause="…", actions=("…",))
    assert [worst([]), worst([odd]), worst([odd, wrong])] == [Severity.OK, Severity.WARN, Severity.ERROR]
    assert [int(severity) for severity in Severity] == [0, 1, 2]
