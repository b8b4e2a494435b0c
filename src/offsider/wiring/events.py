"""Former name of `offsider.runtime.events`."""

from offsider.runtime.events import *  # noqa: F403
