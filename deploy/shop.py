"""The application of the deployment files: replace it by yours."""

from __future__ import annotations

from offsider import job


@job
def send_receipt(order_id: int) -> None:
    print(f"receipt of order {order_id} sent")
