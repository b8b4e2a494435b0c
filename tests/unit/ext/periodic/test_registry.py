"""What is registered in a process, and the extension that holds it."""

from __future__ import annotations

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.ext.periodic import Periodic
from offsider.ext.periodic.registry import defaults_of, registered_in


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
    assert defaults_of(config) == ("Europe/Berlin", 10)


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


def test_an_unknown_time_zone_is_refused():
    with pytest.raises(ConfigurationError, match="tz expects"):
        Periodic(tz="Nowhere")


def test_without_the_extension_nothing_is_registered():
    assert registered_in(Installation.of(Config())) == {}
    assert defaults_of(Config()) == ("UTC", 60.0)


def test_a_disabled_entry_is_left_out(tmp_path):
    (tmp_path / "offsider.toml").write_text("[periodic.off]\nenabled = false\n")
    config = Config.load(cwd=tmp_path, environ={})
    config.use(Periodic())
    assert registered_in(Installation.of(config)) == {}
