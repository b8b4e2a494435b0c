"""Former name of `offsider.runtime.events`."""

from offsider.core import former_names
from offsider.runtime.events import *  # noqa: F403

__getattr__ = former_names.of_module(__name__, {"JobParked": "offsider.runtime.events.JobStranded"})
