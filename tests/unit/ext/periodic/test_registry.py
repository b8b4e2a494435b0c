"""What is registered in a process, and the extension that holds it."""

from __future__ import annotations

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.ext.periodic import Periodic
from offsider.ext.periodic.entry import registered_in, registry_of


def test_jobs_of_code_and_of_the_file_are_registered(tmp_path):
    (tmp_path / "offsider.toml").write_text('[periodic.filed]\ncron = "@hourly"\njob = "Filed"\nqueue = "low"\n')
    config = Config.load(cwd=tmp_path, environ={})
    periodic = Periodic(tz="Europe/Berlin", grace_seconds=10)
    coded = periodic.register("@daily", "Coded", args=[1], queue="high")
    config.use(periodic)
    periodic.register("@daily", "Later", tz="UTC", grace_seconds=5, name="later")
    entries = registered_in(Installation.of(config))
    assert list(entries) == ["Coded", "filed", "later"]
    assert entries["Coded"] is coded
    assert (coded.tz, coded.grace_seconds, coded.queue, coded.source) == ("Europe/Berlin", 10, "high", "code")
    assert (entries["filed"].tz, entries["filed"].queue, entries["filed"].source) == ("Europe/Berlin", "low", "file")
    assert (entries["later"].tz, entries["later"].grace_seconds) == ("UTC", 5)
    assert registry_of(config).defaults == ("Europe/Berlin", 10)


def test_duplicate_names_are_refused():
    periodic = Periodic()
    periodic.register("@daily", "A")
    with pytest.raises(ConfigurationError, match="duplicate periodic job 'A': give one of them another name="):
        periodic.register("@hourly", "A")


def test_a_running_worker_refuses_registrations():
    config, periodic = Config(), Periodic()
    config.use(periodic)
    config.freeze()
    with pytest.raises(ConfigurationError, match=r"PeriodicJobs\(\)\.add"):
        periodic.register("@daily", "A")
