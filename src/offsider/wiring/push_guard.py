"""Former name of `offsider.config.push_guard`."""

from offsider.config.push_guard import *  # noqa: F403
