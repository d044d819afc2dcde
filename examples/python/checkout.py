"""One checkout: hold, pay, confirm, and refund if the hold was lost meanwhile."""

import dataclasses

from answers import Refusal


@dataclasses.dataclass(frozen=True)
class Order:
    """What a buyer wants, and the ids, which a shop keeps before the first call, so that it can go on from any point."""

    allotment_id: str
    buyer_id: str
    request_id: str
    order_id: str
    quantity: int


def checkout(client, order, pay):
    """Sells to a buyer. pay is called with the hold, and gives a payment that has a refund().

    Raises a Refusal if nothing was sold, and nothing stays paid. Raises an Unknown if it is not known: where it is the confirm's, the
    buyer has paid; neither refund nor sell again, but repeat the confirm until it is a sale or a Refusal.
    """
    hold = client.hold(order.allotment_id, order.buyer_id, order.request_id, order.quantity)
    payment = pay(hold)
    try:
        return client.confirm(hold.id, order.order_id)
    except Refusal as no:
        if no.hold_lost:
            payment.refund()
        raise
