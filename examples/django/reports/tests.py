"""The test of the app: a request pushes the job, which builds the report."""

from django.test import TestCase, override_settings

from offsider import testing
from reports.jobs import build_report


@override_settings(REPORT_SECONDS=0)
class ReportTest(TestCase):
    """The API, with the job run by the test."""

    def test_a_report_is_built(self) -> None:
        with testing.fake() as pushed:
            with self.captureOnCommitCallbacks(execute=True):
                created = self.client.post("/reports/2026").json()
            pushed.assert_enqueued(build_report, created["id"])
            pushed.drain()
        shown = self.client.get(f"/reports/{created['id']}").json()
        self.assertEqual((shown["status"], shown["runs"]), ("done", 1))  # noqa: PT009
