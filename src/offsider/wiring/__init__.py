"""Former name of `offsider.config`, `offsider.logs` and `offsider.runtime`, for the modules that the docs named."""

from offsider.core.former_names import warn

warn("offsider.wiring", "offsider.runtime for events and service, offsider.config for push_guard and web_tab")
