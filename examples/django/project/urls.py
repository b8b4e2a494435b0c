"""The URLs: the API, the admin site, and the web UI of offsider."""

from django.contrib import admin
from django.urls import include, path
from reports import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("jobs/", include("offsider.django.urls")),
    path("reports/<int:number>", views.reports),
]
