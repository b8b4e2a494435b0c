"""System checks of ``manage.py check``."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004  # Django's names
from django.utils.module_loading import import_string

from offsider.cli.application import install_periodic
from offsider.config.application import TABLE, VARIABLE
from offsider.config.config import Config
from offsider.core.errors import OffsiderError
from offsider.jobs import registry


@register("offsider")
def check_settings(**_: Any) -> list[CheckMessage]:
    """Check the table ``OFFSIDER``, the options of all jobs, and the periodic jobs."""
    return [*_found()]


def _found() -> Iterator[CheckMessage]:
    try:
        config = Config.load()
    except OffsiderError as error:
        example = "{'url': 'redis://localhost', 'concurrency': 10}"
        hint = f"{TABLE} must be a dict with the keys of offsider.toml, such as {example}."
        yield Error(str(error), hint=hint, id="offsider.E001")
        return
    if config.application is None:
        yield Warning(
            f"{TABLE} is not read, because {VARIABLE} is not set.",
            hint=f"Set the environment variable {VARIABLE} to the module of the settings.",
            id="offsider.W001",
        )
    own = getattr(settings, TABLE, {}).get("configure")
    if own is not None and not _is_function(own):
        yield Error(
            f"{TABLE}['configure'] must be the path of a function, got {own!r}.",
            hint="Write the path as text, such as 'shop.background.configure'; the function takes a Config.",
            id="offsider.E002",
        )
        return
    yield from _of_jobs(config)
    if Path("offsider.toml").is_file():
        yield Warning(
            f"offsider.toml is not read: the settings are in {TABLE}.",
            hint="Move them, or read the file with -C offsider.toml.",
            id="offsider.W002",
        )
    if find_spec("jinja2") is None:
        yield Warning("The web UI needs jinja2.", hint='pip install "offsider[web]"', id="offsider.W003")


def _is_function(path: object) -> bool:
    try:
        return callable(import_string(path))
    except (ImportError, TypeError, AttributeError):
        return False


def _of_jobs(config: Config) -> Iterator[CheckMessage]:
    from offsider.django import application

    try:
        application.configure(config)
        config.check_rules()
        registry.check_all(config)
        install_periodic(config)  # as at the boot of a worker
    except OffsiderError as error:
        yield Error(str(error), id="offsider.E003")
        return
    if "periodic" in config.extensions:
        yield from _of_periodic_jobs(config)


def _of_periodic_jobs(config: Config) -> Iterator[CheckMessage]:
    from offsider.ext.periodic.entry import examine

    fatal = {entry.name for entry, problem in examine(config, foreign=True) if problem}
    for entry, problem in examine(config):
        text = f"periodic job {entry.name!r}: {problem}"
        if entry.name in fatal:
            yield Error(text, hint="Workers refuse to start until this periodic job is fixed.", id="offsider.E006")
        elif problem:
            yield Warning(text, hint="Another program must declare the job and run it.", id="offsider.W004")
