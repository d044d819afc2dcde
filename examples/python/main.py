"""A small sale: three units, five buyers, a declined card, a cut connection, and a buyer who pays too late.

HOLDFAST_ADDR is where Holdfast is (127.0.0.1:50051).
"""

import contextlib
import os
import secrets

import grpc

from answers import Refusal, until_known
from checkout import Order, checkout
from client import Client
from cut import Cut
from protos import admin_service_pb2, admin_service_pb2_grpc, allotment_pb2

ADDRESS = os.environ.get("HOLDFAST_ADDR", "127.0.0.1:50051")
ALLOTMENT = f"concert-{secrets.token_hex(4)}"


def open_allotment():
    """The operator's part: opens the allotment for sale."""
    allotment = allotment_pb2.Allotment(id=ALLOTMENT, capacity=3)
    allotment.hold_duration.FromSeconds(5)
    with grpc.insecure_channel(ADDRESS) as channel:
        admin = admin_service_pb2_grpc.AdminServiceStub(channel)
        request = admin_service_pb2.CreateAllotmentRequest(allotment=allotment)
        until_known(lambda left: admin.CreateAllotment(request, timeout=left), 10)


def seen(numbers, available, held, sold):
    """Waits until a watch has shown these numbers."""
    for now in iter(lambda: next(numbers), None):
        if (now.available, now.held, now.sold) == (available, held, sold):
            break
    print(f"  watch: {available} available, {held} held, {sold} sold")


def refused(reason, call, *facts):
    """Makes sure that a call is refused for this reason, and shows the numbers that come with it."""
    try:
        call()
    except Refusal as no:
        if no.reason != reason:
            raise
        print("  no: " + ", ".join([reason, *(f"{fact} {no.facts[fact]}" for fact in facts)]))
        return
    raise AssertionError(f"not {reason}")


def order(buyer, quantity):
    """What a buyer wants."""
    return Order(ALLOTMENT, buyer, f"{buyer}-cart-1", f"{buyer}-order-1", quantity)


class Till:
    """Where a buyer pays, after what happens meanwhile."""

    def __init__(self, buyer, meanwhile=lambda hold: None):
        self._buyer = buyer
        self._meanwhile = meanwhile

    def charge(self, hold):
        """Takes the money."""
        self._meanwhile(hold)
        print(f"  {self._buyer} pays")

    def refund(self):
        """Gives the money back."""
        print(f"  {self._buyer} is refunded")


class Declined(Exception):
    """No money was taken."""


def main():
    """The sale."""
    open_allotment()
    client = Client(ADDRESS)
    numbers = client.watch(ALLOTMENT)
    print(f"{ALLOTMENT}: 3 units, a hold lasts 5 s")
    seen(numbers, 3, 0, 0)

    def hold(wanted):
        return client.hold(wanted.allotment_id, wanted.buyer_id, wanted.request_id, wanted.quantity)

    def ann_waits(held):
        print(f"  held: {held.id}")
        seen(numbers, 1, 2, 0)

    print("ann buys 2")
    sale = checkout(client, order("ann", 2), Till("ann", ann_waits))
    print(f"  sold: {sale.quantity} units, {sale.order_id}")
    seen(numbers, 1, 0, 2)

    def eve_is_declined(_):
        seen(numbers, 0, 1, 2)
        raise Declined

    print("eve wants one, and her card is declined")
    with contextlib.suppress(Declined):
        checkout(client, order("eve", 1), Till("eve", eve_is_declined))
    seen(numbers, 1, 0, 2)
    print("the same request once more: a new try needs a new request id")
    refused("HOLD_CANCELLED", lambda: hold(order("eve", 1)))

    print("dot wants 2")
    refused("SOLD_OUT", lambda: hold(order("dot", 2)), "requested", "capacity", "sold", "held")

    print("bob wants the last one, and the connection is cut when the answer comes")
    cut = Cut(ADDRESS)
    unlucky = Client(cut.address)

    def bob_is_late(held):
        assert cut.count == 1
        print(f"  held, after {cut.count} cut: {held.id}")
        assert hold(order("bob", 1)).id == held.id
        print("  the same request once more, as after a crash of the shop: the same hold")
        seen(numbers, 0, 1, 2)

        print("cid wants it, too")
        refused("ALL_HELD", lambda: hold(order("cid", 1)), "requested", "capacity", "sold", "held", "next_lapse_time")

        print("bob takes longer than his hold lasts")
        seen(numbers, 1, 0, 2)

        print("cid tries again, with the same request")
        print(f"  held: {hold(order('cid', 1)).id}")
        seen(numbers, 0, 1, 2)
        print("bob is ready at last")

    refused("HOLD_LAPSED", lambda: checkout(unlucky, order("bob", 1), Till("bob", bob_is_late)))

    print("cid goes on with his hold")
    checkout(client, order("cid", 1), Till("cid"))
    seen(numbers, 0, 0, 3)

    numbers.close()
    unlucky.close()
    client.close()


if __name__ == "__main__":
    main()
