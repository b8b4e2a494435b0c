"""What tests of applications with jobs need."""
