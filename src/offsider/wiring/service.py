"""Former name of `offsider.runtime.service`."""

from offsider.runtime.service import *  # noqa: F403
