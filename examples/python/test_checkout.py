"""A client that says what a test asks for."""

import unittest

from answers import Refusal, Unknown
from checkout import Order, checkout
from protos import hold_pb2


class Open:
    """An answer that leaves the outcome open."""

    reason, message = "UNAVAILABLE", ""


class Scene:
    """Client and till. done is what was done with the buyer's money and hold."""

    def __init__(self, state=hold_pb2.HOLD_STATE_HELD, charge=None, confirm=None):
        self.done = []
        self._state = state
        self._fail = {"charge": charge, "confirm": confirm}

    def hold(self, *_):
        """The hold that is found."""
        return hold_pb2.Hold(id="concert.1", state=self._state)

    def __getattr__(self, name):
        def step(*_):
            self.done.append(name)
            if self._fail.get(name):
                raise self._fail[name]

        return step


class Checkouts(unittest.TestCase):
    """What is charged, cancelled and refunded."""

    def test_checkout(self):
        def refusal(reason):
            return Refusal(reason, "", {})

        for name, scene, want in (
            ("a buyer pays, and it is sold", Scene(), "charge confirm"),
            ("who has paid before does not pay again", Scene(state=hold_pb2.HOLD_STATE_SOLD), "confirm"),
            ("nor while the confirm is under way", Scene(state=hold_pb2.HOLD_STATE_CONFIRMING), "confirm"),
            ("who does not pay gives the hold back", Scene(charge=OSError("declined")), "charge cancel"),
            ("a lapsed hold is refunded", Scene(confirm=refusal("HOLD_LAPSED")), "charge confirm refund"),
            ("a cancelled hold is refunded", Scene(confirm=refusal("HOLD_CANCELLED")), "charge confirm refund"),
            ("a forgotten hold is refunded", Scene(confirm=refusal("HOLD_NOT_FOUND")), "charge confirm refund"),
            ("another no is not refunded", Scene(confirm=refusal("ORDER_MISMATCH")), "charge confirm"),
            ("what is not known is not refunded", Scene(confirm=Unknown(Open)), "charge confirm"),
        ):
            with self.subTest(name):
                try:
                    checkout(scene, Order("concert", "ann", "cart-1", "order-1", 1), scene)
                except (Refusal, Unknown, OSError):
                    pass
                self.assertEqual(" ".join(scene.done), want)


if __name__ == "__main__":
    unittest.main()
