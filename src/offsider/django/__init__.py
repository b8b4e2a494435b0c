"""The Django app: ``INSTALLED_APPS += ["offsider.django"]``. Each module is imported only where it is used."""
