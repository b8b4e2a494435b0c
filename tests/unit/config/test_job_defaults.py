"""Default options of jobs."""

from __future__ import annotations

import pytest

from offsider.config.settings import JobDefaults
from offsider.core.errors import ConfigurationError


def test_at_first_they_are_sidekiqs():
    assert list(JobDefaults().items()) == [("retry", True), ("queue", "default")]


def test_they_can_be_set_and_removed():
    defaults = JobDefaults()
    defaults["retry"] = 3
    defaults["backtrace"] = 20
    del defaults["queue"]
    assert dict(defaults) == {"retry": 3, "backtrace": 20}
    assert len(defaults) == 2
    assert "backtrace" in repr(defaults)


@pytest.mark.parametrize("key, value", [("retry", -1), ("queue", ""), ("retry_for", -5), ("tags", "x")])
def test_impossible_values_are_refused(key, value):
    with pytest.raises(ConfigurationError, match=f"jobs .default options.: .*{key}"):
        JobDefaults()[key] = value


@pytest.mark.parametrize("key, value", [("after_commit", False), ("server", "bulk"), ("name", "x")])
def test_options_that_are_read_from_a_declaration_or_a_push_only_are_refused(key, value):
    with pytest.raises(ConfigurationError, match=f"'{key}' has no default for all jobs; give it to @job"):
        JobDefaults()[key] = value


def test_options_of_extensions_are_checked_only_at_the_freeze():
    defaults = JobDefaults()
    defaults["unique_for"] = 60
    defaults.check(["unique_for"])
    with pytest.raises(ConfigurationError, match="unknown option 'unique_for'"):
        defaults.check([])


def test_options_that_exclude_each_other_are_refused():
    defaults = JobDefaults()
    defaults["retry"] = 3
    defaults["retry_for"] = 60
    with pytest.raises(ConfigurationError, match="exclude"):
        defaults.check([])


def test_their_stored_form_is_made_once_for_each_change():
    defaults = JobDefaults()
    stored = defaults.stored
    assert defaults.stored is stored
    defaults["retry"] = 3
    assert dict(defaults.stored) == {"retry": 3, "queue": "default"}


def test_merging_is_as_strict_as_single_changes():
    defaults = JobDefaults()
    merged = defaults | {"retry": 3}
    assert dict(merged.stored) == {"retry": 3, "queue": "default"}
    assert dict({"retry": 3} | defaults) == dict(defaults) == {"retry": True, "queue": "default"}
    assert dict(defaults.stored) == dict(defaults)
    defaults |= merged
    assert dict(defaults.stored) == {"retry": 3, "queue": "default"}
    with pytest.raises(ConfigurationError, match="retry"):
        defaults |= {"retry": -5}
    defaults.freeze()
    with pytest.raises(ConfigurationError, match=r"config\.jobs"):
        defaults |= {"retry": 4}
