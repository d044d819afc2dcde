"""One checkout: hold, pay, confirm; cancel if the buyer does not pay, and refund if the hold was lost meanwhile."""

import contextlib
import dataclasses

from answers import Refusal, Unknown
from protos import hold_pb2


@dataclasses.dataclass(frozen=True)
class Order:
    """What a buyer wants, and the ids, which a shop keeps before the first call, so that it can go on from any point."""

    allotment_id: str
    buyer_id: str
    request_id: str
    order_id: str
    quantity: int


def checkout(client, order, till):
    """Sells to a buyer. till takes the money, charge(hold), and gives it back, refund().

    Raises a Refusal if nothing was sold, and nothing stays paid. Raises an Unknown if it is not known: where it is the confirm's, the
    buyer has paid; neither refund nor sell again, but call checkout again with the same order until it gives a sale or a Refusal.
    """
    hold = client.hold(order.allotment_id, order.buyer_id, order.request_id, order.quantity)
    # Else it is SOLD or CONFIRMING: it was paid for before this shop crashed or gave up.
    if hold.state == hold_pb2.HOLD_STATE_HELD:
        _charge(client, hold, till)
    try:
        return client.confirm(hold.id, order.order_id)
    except Refusal as no:
        if no.hold_lost:
            till.refund()
        raise


def _charge(client, hold, till):
    try:
        till.charge(hold)
    except Exception:
        with contextlib.suppress(Refusal, Unknown):  # else it lapses
            client.cancel(hold.id)
        raise
