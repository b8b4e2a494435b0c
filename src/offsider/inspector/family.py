"""Former name of `offsider.prometheus.family`."""

from offsider.core import former_names

__getattr__ = former_names.of_module(
    __name__, {"Family": "offsider.prometheus.Family", "Sample": "offsider.prometheus.Sample"}
)
