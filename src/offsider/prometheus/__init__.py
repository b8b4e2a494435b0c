"""Metrics for Prometheus: `fleet` and `family` define them, `text` formats them, extensions add a `Family`."""

from offsider.prometheus.family import Family, Sample

__all__ = ["Family", "Sample"]
