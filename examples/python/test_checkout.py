"""A client and a shop that say what a test asks for."""

import unittest

from answers import Refusal, Unknown
from checkout import Order, checkout
from protos import hold_pb2


class Open:
    """An answer that leaves the outcome open."""

    reason, message = "UNAVAILABLE", ""


class Scene:
    """Client and shop. done is what was done: calls, and the states stored. The steps in fails raise."""

    def __init__(self, order, fails=None, paid="PAID"):
        self.kept = order
        self.done = []
        self.fails = fails or {}
        self.raised = None
        self._results = {"hold": hold_pb2.Hold(id="concert.1"), "pay": paid}

    def _step(self, name):
        self.done.append(name)
        if name in self.fails:
            raise self.fails[name]
        return self._results.get(name)

    def store(self, order):
        """Keeps an order."""
        self._step(order.state)
        self.kept = order

    def __getattr__(self, name):
        return lambda *_: self._step(name)

    def play(self):
        """Goes on with the order that is kept."""
        self.done, self.raised = [], None
        try:
            checkout(self, self, self.kept)
        except (Refusal, Unknown, OSError) as error:
            self.raised = error
        return " ".join(self.done)


def order_in(state):
    """An order in a state."""
    return Order("order-1", "concert", "ann", 1, state, "concert.1")


class Checkouts(unittest.TestCase):
    """What is charged, sold and refunded, and what is stored before."""

    def test_checkout_goes_on(self):
        def no(reason):
            return Refusal(reason, "", {})

        away, unknown = OSError("away"), Unknown(Open)
        refunds = "confirm REFUNDING refund REFUNDED"
        for name, state, scene, want, ends in (
            ("sold", "HOLDING", {}, "hold PAYING pay PAID confirm SOLD", "SOLD"),
            ("sold out", "HOLDING", {"fails": {"hold": no("SOLD_OUT")}}, "hold", "HOLDING"),
            ("its hold has lapsed", "HOLDING", {"fails": {"hold": no("HOLD_LAPSED")}}, "hold", "HOLDING"),
            ("declined", "HOLDING", {"paid": "GIVEN_UP"}, "hold PAYING pay GIVEN_UP cancel", "GIVEN_UP"),
            ("not stored, not charged", "HOLDING", {"fails": {"PAYING": away}}, "hold PAYING", "HOLDING"),
            ("not known whether paid", "PAYING", {"fails": {"pay": away}}, "pay", "PAYING"),
            ("payment is pending", "PAYING", {"paid": "pending"}, "pay", "PAYING"),
            ("pay returns nothing", "PAYING", {"paid": None}, "pay", "PAYING"),
            ("payment sells nothing", "PAYING", {"paid": "SOLD"}, "pay", "PAYING"),
            ("crashed while paying", "PAYING", {}, "pay PAID confirm SOLD", "SOLD"),
            ("paid is not charged again", "PAID", {}, "confirm SOLD", "SOLD"),
            ("paid, and not known whether sold", "PAID", {"fails": {"confirm": unknown}}, "confirm", "PAID"),
            ("paid, and lapsed", "PAID", {"fails": {"confirm": no("HOLD_LAPSED")}}, refunds, "REFUNDED"),
            ("paid, and cancelled", "PAID", {"fails": {"confirm": no("HOLD_CANCELLED")}}, refunds, "REFUNDED"),
            ("paid, and the sale cancelled", "PAID", {"fails": {"confirm": no("SALE_CANCELLED")}}, refunds, "REFUNDED"),
            ("paid, and no such hold", "PAID", {"fails": {"confirm": no("HOLD_NOT_FOUND")}}, "confirm", "PAID"),
            ("paid, and another no", "PAID", {"fails": {"confirm": no("ORDER_MISMATCH")}}, "confirm", "PAID"),
            (
                "no refund before it is stored",
                "PAID",
                {"fails": {"confirm": no("HOLD_LAPSED"), "REFUNDING": away}},
                "confirm REFUNDING",
                "PAID",
            ),
            ("refund fails", "REFUNDING", {"fails": {"refund": away}}, "refund", "REFUNDING"),
            ("a refund is never a sale again", "REFUNDING", {}, "refund REFUNDED", "REFUNDED"),
            ("not cancelled, and given up all the same", "GIVEN_UP", {"fails": {"cancel": unknown}}, "cancel", "GIVEN_UP"),
            ("sold before", "SOLD", {}, "", "SOLD"),
            ("refunded before", "REFUNDED", {}, "", "REFUNDED"),
        ):
            with self.subTest(name):
                played = Scene(order_in(state), **scene)
                self.assertEqual((played.play(), played.kept.state), (want, ends))
                self.assertEqual(played.raised is None, ends in ("SOLD", "REFUNDED", "GIVEN_UP") or "paid" in scene)

    def test_a_confirm_that_is_not_known_goes_on_with_the_confirm(self):
        scene = Scene(order_in("HOLDING"), {"confirm": Unknown(Open)})
        self.assertEqual(scene.play(), "hold PAYING pay PAID confirm")
        self.assertIsInstance(scene.raised, Unknown)
        scene.fails = {}
        self.assertEqual(scene.play(), "confirm SOLD")


if __name__ == "__main__":
    unittest.main()
