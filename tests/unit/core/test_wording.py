"""Messages count in words that fit."""

import pytest

from offsider.core.wording import counted


@pytest.mark.parametrize("number, said", [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs")])
def test_only_one_is_singular(number, said):
    assert counted(number, "job") == said
