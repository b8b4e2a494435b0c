"""Former name of `offsider.config`, `offsider.logs` and `offsider.runtime`, for the modules that the docs named."""

import warnings

warnings.warn(
    "offsider.wiring is split: import events and service from offsider.runtime, web_tab from offsider.config",
    DeprecationWarning,
    stacklevel=2,
)
