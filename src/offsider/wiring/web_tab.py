"""Former name of `offsider.config.web_tab`."""

from offsider.config.web_tab import *  # noqa: F403
