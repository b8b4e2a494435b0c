"""Pages of rows that are all at hand, and the filter over them."""

from offsider.cli.top.tabs import Row, TabTable, View, paged

ROWS = [Row(str(number), (f"Job{number}", "Mail" if number % 2 else "Text")) for number in range(10)]


def test_a_page_is_a_part_of_the_rows():
    assert paged(("JOB", "KIND"), ROWS, View(page=1, size=4)) == TabTable(("JOB", "KIND"), ROWS[4:8], 10)


def test_a_filter_matches_every_cell_case_insensitively():
    found = paged(("JOB", "KIND"), ROWS, View(size=3, text="mail"))
    assert [row.key for row in found.rows] == ["1", "3", "5"]
    assert found.total == 5


def test_a_page_after_the_last_is_empty():
    assert paged(("JOB",), ROWS, View(page=9, size=4)) == TabTable(("JOB",), [], 10)
