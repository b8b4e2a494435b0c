"""The class that the setting names is found, written with a dot or with a colon."""

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.worker.fetch.fetcher import FetcherContext, make_fetcher


class Own:
    """A fetcher as a user would write it."""

    def __init__(self, *given) -> None:
        self.given = given


@pytest.mark.parametrize("between", [".", ":"])
def test_a_custom_fetcher_is_created_with_its_dependencies(between, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "own_fetching", type("module", (), {"Own": Own}))
    config = Config()
    config.worker.fetcher = f"own_fetching{between}Own"

    context = FetcherContext(config, config.capsules["default"], Installation.of(config).redis, None, list)
    made = make_fetcher(context)

    assert made.given == (context,)


def test_a_missing_fetcher_class_is_a_configuration_error():
    config = Config()
    config.worker.fetcher = "nowhere.Own"

    with pytest.raises(ConfigurationError, match=r"worker\.fetcher: 'nowhere\.Own'"):
        make_fetcher(FetcherContext(config, config.capsules["default"], Installation.of(config).redis, None, list))
