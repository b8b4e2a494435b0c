"""What is said when the library of an integration is not installed."""

from __future__ import annotations

from offsider.core.errors import ConfigurationError


def missing(integration: str, extra: str) -> ConfigurationError:
    """The error that names the way out."""
    return ConfigurationError(f'offsider.integrations.{integration} needs more: pip install "offsider[{extra}]"')
