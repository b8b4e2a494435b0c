"""The table of a Django project as a configuration file, with stand-in settings: Django is set up once per process."""

from types import ModuleType, SimpleNamespace

import django.conf
import pytest

from offsider import Config, ConfigurationError
from offsider.config.default import default_config, set_default_config

ENVIRON = {"DJANGO_SETTINGS_MODULE": "shop.settings"}


@pytest.fixture
def settings(monkeypatch):
    settings = SimpleNamespace(INSTALLED_APPS=["offsider.django"], OFFSIDER={"concurrency": 3, "configure": "shop.it"})
    monkeypatch.setattr(django.conf, "settings", settings)
    return settings


def test_the_table_is_the_configuration_file(settings, tmp_path):
    (tmp_path / "offsider.toml").write_text("concurrency = 7\n")
    config = Config.load(environ=ENVIRON, cwd=tmp_path)
    assert (config.worker.concurrency, str(config.file)) == (3, "shop.settings.OFFSIDER")
    assert config.application.origin == "shop.settings.OFFSIDER"


def test_a_given_file_replaces_it_but_the_app_still_configures(settings, tmp_path):
    (tmp_path / "other.toml").write_text("concurrency = 7\n")
    config = Config.load(tmp_path / "other.toml", environ=ENVIRON)
    assert (config.worker.concurrency, config.application.origin) == (7, "shop.settings.OFFSIDER")


@pytest.mark.parametrize("apps", [[], ["offsider"], ["offsider.djangoes"]])
def test_without_the_app_the_project_is_not_read(settings, apps):
    settings.INSTALLED_APPS = apps
    assert Config.load(environ=ENVIRON).application is None


def test_without_a_settings_module_no_settings_are_read(settings):
    assert Config.load(environ={}).application is None


def test_the_app_may_be_named_by_its_class(settings):
    settings.INSTALLED_APPS = ["offsider.django.apps.OffsiderConfig"]
    assert Config.load(environ=ENVIRON).worker.concurrency == 3


def test_a_setting_that_is_not_a_table_is_an_error(settings):
    settings.OFFSIDER = ["worker"]
    with pytest.raises(
        ConfigurationError, match=r"shop\.settings: OFFSIDER must be a dict of settings, got \['worker'\]"
    ):
        Config.load(environ=ENVIRON)


def test_settings_that_cannot_be_imported_are_an_error(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # not on the path yet, as for the program `offsider`
    monkeypatch.setattr("sys.path", ["/usr/nothing"])

    class Broken:
        @property
        def INSTALLED_APPS(self):  # noqa: N802
            raise ModuleNotFoundError("No module named 'shop'")

    monkeypatch.setattr(django.conf, "settings", Broken())
    with pytest.raises(ConfigurationError, match=r"DJANGO_SETTINGS_MODULE=shop\.settings cannot be imported: Mod"):
        Config.load(environ=ENVIRON)


def test_the_app_configures_the_default_configuration(settings, monkeypatch):
    application = ModuleType("offsider.django.application")
    application.configure = lambda config: setattr(config.worker, "tag", "the shop")
    monkeypatch.setitem(__import__("sys").modules, "offsider.django.application", application)
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "shop.settings")
    before = set_default_config(None)
    try:
        assert default_config().worker.tag == "the shop"
    finally:
        set_default_config(before)


@pytest.mark.parametrize(
    "table, environ, reloads",
    [
        ({}, {}, True),
        ({"reload": False}, {}, False),
        ({"worker": {"reload": False}}, {}, False),
        ({"environments": {"production": {"reload": False}}}, {}, True),
        ({"environments": {"production": {"reload": False}}}, {"OFFSIDER_ENV": "production"}, False),
        ({}, {"OFFSIDER_WORKER_RELOAD": "false"}, False),
    ],
)
def test_a_worker_of_manage_py_reloads_unless_the_project_decides_otherwise(settings, table, environ, reloads):
    settings.OFFSIDER = table
    config = Config.load(environ=ENVIRON | {"DJANGO_OFFSIDER_RELOAD": "true"} | environ)
    assert config.worker.reload is reloads
