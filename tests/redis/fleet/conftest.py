"""A configuration for the server under test."""

from tests.redis.inspector.conftest import config

__all__ = ["config"]
