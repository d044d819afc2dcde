"""A small sale: three units, five buyers, a declined card, a cut connection, and a buyer who pays too late.

HOLDFAST_ADDR is where Holdfast is (127.0.0.1:50051).
"""

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


def order_of(buyer, quantity):
    """What a shop stores first."""
    return Order(f"{buyer}-order-1", ALLOTMENT, buyer, quantity)


class Shop:
    """Has neither database nor payment provider; it says what it would do with them. paying is what comes of a buyer's payment."""

    def __init__(self, paying=lambda order: "PAID"):
        self._paying = paying

    def store(self, order):
        """Keeps an order."""
        print(f"  {order.order_id} is {order.state}")

    def pay(self, order):
        """Takes the money."""
        state = self._paying(order)
        if state == "PAID":
            print(f"  {order.buyer_id} pays")
        return state

    def refund(self, order):
        """Gives the money back."""
        print(f"  {order.buyer_id} gets the money back")


def main():
    """The sale."""
    open_allotment()
    client = Client(ADDRESS)
    numbers = client.watch(ALLOTMENT)
    print(f"{ALLOTMENT}: 3 units, a hold lasts 5 s")
    seen(numbers, 3, 0, 0)

    def hold(order):
        return client.hold(order.allotment_id, order.buyer_id, order.order_id, order.quantity)

    def ann_waits(order):
        print(f"  held: {order.hold_id}")
        seen(numbers, 1, 2, 0)
        return "PAID"

    print("ann buys 2")
    checkout(client, Shop(ann_waits), order_of("ann", 2))
    seen(numbers, 1, 0, 2)

    def eve_is_declined(_):
        seen(numbers, 0, 1, 2)
        return "GIVEN_UP"

    print("eve wants one, and her card is declined")
    checkout(client, Shop(eve_is_declined), order_of("eve", 1))
    seen(numbers, 1, 0, 2)
    print("the same order once more: a new try needs a new order")
    refused("HOLD_CANCELLED", lambda: hold(order_of("eve", 1)))

    print("dot wants 2")
    refused("SOLD_OUT", lambda: hold(order_of("dot", 2)), "requested", "capacity", "sold", "held")

    print("bob wants the last one, and the connection is cut when the answer comes")
    cut = Cut(ADDRESS)
    unlucky = Client(cut.address)

    def bob_is_late(order):
        assert cut.count == 1
        print(f"  held, after {cut.count} cut: {order.hold_id}")
        assert hold(order_of("bob", 1)).id == order.hold_id
        print("  the same order once more, as after a crash of the shop: the same hold")
        seen(numbers, 0, 1, 2)

        print("cid wants it, too")
        refused("ALL_HELD", lambda: hold(order_of("cid", 1)), "requested", "capacity", "sold", "held", "next_lapse_time")

        print("bob takes longer than his hold lasts")
        seen(numbers, 1, 0, 2)

        print("cid tries again, with the same order")
        print(f"  held: {hold(order_of('cid', 1)).id}")
        seen(numbers, 0, 1, 2)
        print("bob is ready at last")
        return "PAID"

    late = checkout(unlucky, Shop(bob_is_late), order_of("bob", 1))
    assert late.state == "REFUNDED"

    print("cid goes on with his hold")
    checkout(client, Shop(), order_of("cid", 1))
    seen(numbers, 0, 0, 3)

    numbers.close()
    unlucky.close()
    client.close()


if __name__ == "__main__":
    main()
