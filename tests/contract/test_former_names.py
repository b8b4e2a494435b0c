"""Names that earlier documentation showed still work, and warn with the new name."""

from __future__ import annotations

import importlib
import sys
import warnings

import pytest

from offsider import Config, ConfigurationError, Installation
from offsider.core.former_names import FormerName
from offsider.ext.concurrency_limits import Limits
from offsider.ext.concurrency_limits.limits import Limit
from offsider.inspector import Counted, DeadSet, JobFilter, Queue
from offsider.inspector.doctor import Finding, Severity

IMPORTED = {
    "offsider.inspector.family.Family": "offsider.prometheus.Family",
    "offsider.inspector.family.Sample": "offsider.prometheus.Sample",
    "offsider.integrations.django.CallerId": "offsider.django.middleware.CallerId",
    "offsider.integrations.django_pages.pages": "offsider.django.pages.pages",
    "offsider.inspector.parked_jobs": "offsider.inspector.stranded_jobs",
    "offsider.web.Visit": "offsider.web.PageRequest",
    "offsider.wiring.events.JobParked": "offsider.runtime.events.JobStranded",
    "offsider.wiring.web_tab.WebVisit": "offsider.config.web_tab.WebRequest",
}
MODULES = {
    "offsider.wiring.events": "offsider.runtime.events",
    "offsider.wiring.push_guard": "offsider.config.push_guard",
    "offsider.wiring.service": "offsider.runtime.service",
    "offsider.wiring.web_tab": "offsider.config.web_tab",
}
ATTRIBUTES = [
    (lambda: Limit("a", 3, 3, None, paused=False, in_use=1, held=2), "parked", "held"),
    (Limits, "parked", "held"),
    (DeadSet, "preview", "count"),
    (lambda: Finding("eviction", Severity.WARN, "what", fix="fix"), "way_out", "fix"),
    (lambda: Queue("default"), "preview", "count"),
]
OF_CONFIG = {
    "close": "close",
    "for_server": "for_server",
    "leads": "is_leader",
    "make_redis": "make_redis",
}
EVENTS = {"job_parked": "job_stranded"}
SETTINGS = {("client", "large_argument_bytes"): "large_payload_bytes", ("worker", "park_days"): "stranded_days"}


@pytest.mark.parametrize("former, new", IMPORTED.items())
def test_a_former_name_is_the_renamed_object(former, new):
    module, _, name = former.rpartition(".")
    path, _, attribute = new.rpartition(".")
    with warnings.catch_warnings(action="ignore"):
        old = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=rf"{module}\.{name} is a former name: use {new}$") as warned:
        found = getattr(old, name)
    assert found is getattr(importlib.import_module(path), attribute)
    assert warned[0].filename == __file__
    with pytest.raises(AttributeError, match=f"'{module}' has no attribute 'nothing'"):
        old.nothing  # noqa: B018 - asking is the test


@pytest.mark.parametrize("former, new", MODULES.items())
def test_a_former_module_has_the_objects_of_the_new_one(monkeypatch, former, new):
    for module in [module for module in sys.modules if module.startswith("offsider.wiring")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.warns(DeprecationWarning, match=r"offsider\.wiring is a former name"):
        old = importlib.import_module(former)
    public = {name: one for name, one in vars(importlib.import_module(new)).items() if not name.startswith("_")}
    assert public.items() <= vars(old).items()


@pytest.mark.parametrize("make, former, new", ATTRIBUTES)
def test_a_former_attribute_is_the_renamed_one(make, former, new):
    one = make()
    with pytest.warns(DeprecationWarning, match=rf"{former} is a former name: use {new}$") as warned:
        found = getattr(one, former)
    assert found == getattr(one, new)
    assert warned[0].filename == __file__
    assert isinstance(getattr(type(one), former), FormerName)


@pytest.mark.parametrize("former, new", OF_CONFIG.items())
def test_former_attributes_of_a_configuration_are_those_of_its_installation(former, new):
    config = Config()
    with pytest.warns(DeprecationWarning, match=rf"Config\.{former} is a former name: use Installation\.of"):
        found = getattr(config, former)
    assert found == getattr(Installation.of(config), new)


def test_the_shared_pool_is_that_of_the_installation():
    config = Config()
    with pytest.warns(DeprecationWarning, match=r"use Installation\.of\(config\)\.redis"):
        assert config.shared_redis() is Installation.of(config).redis


def test_a_preview_is_a_count_with_the_number_of_matches():
    counted = Counted(JobFilter(), once=True)
    counted.add([b"{}"])
    with pytest.warns(DeprecationWarning, match=r"use len\(counted\)"):
        assert counted.matched == 1


@pytest.mark.parametrize("former, new", EVENTS.items())
def test_a_former_event_is_the_renamed_one(former, new):
    config = Config()
    with pytest.warns(DeprecationWarning, match=f"the event {former} is a former name: use {new}") as warned:
        config.on(former)(print)
    assert config.events.listened(new)
    assert warned[0].filename == __file__


@pytest.mark.parametrize("setting, new", SETTINGS.items())
def test_a_former_setting_is_still_read(tmp_path, monkeypatch, setting, new):
    section, former = setting
    (tmp_path / "offsider.toml").write_text(f"[{section}]\n{former} = 4321\n")
    monkeypatch.chdir(tmp_path)
    assert getattr(getattr(Config.load(), section), new) == 4321


def test_names_of_neither_time_are_errors():
    with pytest.raises(ConfigurationError, match="no event 'job_park'"):
        Config().on("job_park")
