"""Metrics for Prometheus: `family` defines those of runs, `text` formats them, extensions add a `Family`."""

from offsider.prometheus.family import Family, Sample

__all__ = ["Family", "Sample"]
