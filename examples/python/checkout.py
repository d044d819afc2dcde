"""One checkout: hold, pay, confirm; the hold goes back if the buyer does not pay, and the money if the hold was lost meanwhile."""

import contextlib
import dataclasses
import time

from answers import Refusal, Unknown

# What may come after a state.
FOLLOWS = {"HOLDING": ("PAYING",), "PAYING": ("PAID", "GIVEN_UP"), "PAID": ("SOLD", "REFUNDING"), "REFUNDING": ("REFUNDED",)}


@dataclasses.dataclass(frozen=True)
class Order:
    """A row of the shop's database. It is stored as HOLDING before the first call."""

    order_id: str
    allotment_id: str
    buyer_id: str
    quantity: int
    state: str = "HOLDING"
    hold_id: str = ""
    pay_before: float = 0  # as time.time()

    def to(self, state, **more):
        """The order in another state."""
        return dataclasses.replace(self, state=state, **more)


def checkout(client, shop, order):
    """Goes on with an order from where it is, to SOLD, REFUNDED or GIVEN_UP, or PAYING if it is not known yet whether it is paid.

    Returns it, or raises what keeps it from there: a Refusal, an Unknown, or what the shop raises. The order stays as it was stored last
    then, and checkout goes on from there when it is called again. shop is what is yours:

    store(order)   keeps the order, and raises if it could not.
    pay(order)     asks the payment provider for what became of the order, and charges under the order's id if it is neither paid nor
                   pay_before over. Returns "PAID"; or "GIVEN_UP" if no money was taken and none will be. If it returns anything else, or
                   raises, that is not known yet, and the order stays PAYING.
    refund(order)  gives back what was paid, under the order's id: once, however often it is called.
    """
    after = _step(client, shop, order)
    if after.state not in FOLLOWS.get(order.state, ()):
        return order
    shop.store(after)
    return checkout(client, shop, after)


def _step(client, shop, order):
    if order.state == "HOLDING":
        hold = client.hold(order.allotment_id, order.buyer_id, order.order_id, order.quantity)
        return order.to("PAYING", hold_id=hold.id, pay_before=time.time() + hold.remaining.ToTimedelta().total_seconds())
    if order.state == "PAYING":
        return order.to(shop.pay(order))
    if order.state == "PAID":
        return order.to(_confirm(client, order))
    if order.state == "REFUNDING":
        shop.refund(order)
        return order.to("REFUNDED")
    if order.state == "GIVEN_UP":
        with contextlib.suppress(Refusal, Unknown):  # the next one has the units at once; else the hold lapses
            client.cancel(order.hold_id)
    return order


def _confirm(client, order):
    """What becomes of a paid order. One that is REFUNDING is never confirmed again: units that have come back meanwhile would be sold."""
    try:
        client.confirm(order.hold_id, order.order_id)
    except Refusal as no:
        if no.hold_lost:
            return "REFUNDING"
        raise
    return "SOLD"
