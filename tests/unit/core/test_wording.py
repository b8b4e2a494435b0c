"""Messages count in words that fit."""

import pytest

from offsider.core.wording import counted, listed, shell_words


def test_only_one_is_singular_and_nouns_in_s_and_sh_have_a_plural_in_es():
    assert [counted(number, "job") for number in range(3)] == ["0 jobs", "1 job", "2 jobs"]
    assert [counted(2, noun) for noun in ("process", "push", "batch")] == ["2 processes", "2 pushes", "2 batches"]


@pytest.mark.parametrize(
    "names, expected",
    [
        ([], ""),
        (["b", "a"], "b, a"),
        (list("edcba"), "e, d, c, b, a"),
        (iter("fedcba"), "f, e, d, c, b and 1 more"),
        ([str(number) for number in range(12)], "0, 1, 2, 3, 4 and 7 more"),
    ],
)
def test_of_many_names_the_first_are_listed(names, expected):
    assert listed(names) == expected


def test_a_name_in_a_proposed_command_is_neither_syntax_nor_an_option():
    assert shell_words("mail") == "mail"
    assert shell_words("$(reboot)", "a b") == "'$(reboot)' 'a b'"
    assert shell_words("--all") == "-- --all"
