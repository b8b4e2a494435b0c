"""The example application used by the other files; replace it with yours."""

from __future__ import annotations

from offsider import job


@job
def send_receipt(order_id: int) -> None:
    print(f"receipt of order {order_id} sent")
