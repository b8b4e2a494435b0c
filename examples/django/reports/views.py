"""The API: POST /reports/YEAR creates a report, GET /reports/ID shows it."""

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt

from reports.jobs import build_report
from reports.models import Report


@csrf_exempt
def reports(request: HttpRequest, number: int) -> JsonResponse:
    return create(number) if request.method == "POST" else show(number)


@transaction.atomic
def create(year: int) -> JsonResponse:
    report = Report.objects.create(year=year)
    build_report.enqueue(report.id)  # is pushed after the commit
    return JsonResponse({"id": report.id, "status": report.status}, status=202)


def show(report_id: int) -> JsonResponse:
    report = get_object_or_404(Report, pk=report_id)
    return JsonResponse({"id": report.id, "status": report.status, "runs": report.runs, "text": report.text})
