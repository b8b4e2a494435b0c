"""Integrations: web frameworks, tracing, metrics, error reports. Each is imported only by programs that use it."""

from __future__ import annotations

from offsider.core.errors import ConfigurationError


def missing(package: str, extra: str) -> ConfigurationError:
    """Return the error with the command that installs the library."""
    return ConfigurationError(f'{package} needs another package: pip install "offsider[{extra}]"')
