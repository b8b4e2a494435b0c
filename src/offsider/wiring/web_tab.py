"""Former name of `offsider.config.web_tab`."""

from offsider.config.web_tab import *  # noqa: F403
from offsider.core import former_names

__getattr__ = former_names.of_module(__name__, {"WebVisit": "offsider.config.web_tab.WebRequest"})
