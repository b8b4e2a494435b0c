"""An examination of servers, their workers and what is stored: what is wrong, why it matters, and the way out."""

from offsider.inspector.doctor.examination import examine, examine_all
from offsider.inspector.doctor.finding import Finding, Severity, worst

__all__ = ["Finding", "Severity", "examine", "examine_all", "worst"]
