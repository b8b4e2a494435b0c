"""The one error for a library that is not there."""

from offsider.core.errors import ConfigurationError
from offsider.integrations import missing


def test_it_names_the_integration_and_the_package_to_install():
    error = missing("offsider.integrations.opentelemetry", "otel")
    assert isinstance(error, ConfigurationError)
    assert str(error) == 'offsider.integrations.opentelemetry needs another package: pip install "offsider[otel]"'
