"""Find problems: broken and slow classes, late and stopped queues, crashes, limits, a server or configuration at fault.

`find` looks at a server once. `refresh` stores the findings, with the time at which each began; a worker calls it each
ten seconds, so that `stored`, which the pages, ``offsider now`` and alerts call, costs one command. ``offsider
doctor`` makes all checks, also those that take longer (`examination`).
"""

from offsider.inspector.finding import Finding
from offsider.inspector.findings.examination import examine, find
from offsider.inspector.findings.stored import mute, refresh, stored, unmute

__all__ = ["Finding", "examine", "find", "mute", "refresh", "stored", "unmute"]
