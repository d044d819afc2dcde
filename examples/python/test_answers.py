"""A server that gives the answers a test asks for, and counts the requests that reach it."""

import concurrent.futures
import unittest

import grpc
from google.protobuf import any_pb2

from answers import Answer, Refusal, Unknown, until_known, wait_of
from client import Client
from protos import errors_pb2, inventory_service_pb2, inventory_service_pb2_grpc

CODE = grpc.StatusCode


def packed(message):
    """A detail of a status."""
    detail = any_pb2.Any()
    detail.Pack(message)
    return detail


def said(code, reason, wait=None, **facts):
    """An answer as Holdfast gives it. wait, in ms: when to come again."""
    details = [packed(errors_pb2.ErrorInfo(reason=reason, domain="holdfast.v1", metadata=facts))]
    trailer = []
    if wait is not None:
        retry = errors_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(wait)
        details.append(packed(retry))
        trailer.append(("grpc-retry-pushback-ms", str(wait)))
    trailer.append(("grpc-status-details-bin", errors_pb2.Status(details=details).SerializeToString()))
    return code, trailer


class Scripted(inventory_service_pb2_grpc.InventoryServiceServicer):
    """Gives the answers it has, then holds."""

    def __init__(self):
        self.answers = []
        self.requests = []

    def CreateHold(self, request, context):  # pylint: disable=invalid-name
        """One answer."""
        self.requests.append(request)
        if self.answers:
            code, trailer = self.answers.pop(0)
            context.set_trailing_metadata(trailer)
            context.abort(code, "said by the test")
        response = inventory_service_pb2.CreateHoldResponse()
        response.hold.id = "concert.1"
        return response

    def ConfirmHold(self, request, context):  # pylint: disable=invalid-name
        """Two units, and as many as the order's id says cancelled since; or a sale that says nothing."""
        del context
        response = inventory_service_pb2.ConfirmHoldResponse()
        if request.order_id == "empty":
            return response
        response.sale.quantity, response.sale.cancelled_quantity = 2, int(request.order_id)
        return response


class FakeError(grpc.RpcError):
    """What gRPC raises."""

    def __init__(self, code):
        super().__init__()
        self._code = code

    def code(self):
        """The code."""
        return self._code

    def details(self):
        """The text."""
        return ""

    def trailing_metadata(self):
        """The trailer."""
        return ()


class Answers(unittest.TestCase):
    """What is tried again, and what not."""

    def setUp(self):
        self.scripted = Scripted()
        server = grpc.server(concurrent.futures.ThreadPoolExecutor())
        inventory_service_pb2_grpc.add_InventoryServiceServicer_to_server(self.scripted, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        self.client = Client(f"127.0.0.1:{port}")
        self.addCleanup(self.client.close)

    def hold_after(self, *answers):
        """Asks for a hold of a server that first gives these answers."""
        self.scripted.answers = list(answers)
        return self.client.hold("concert", "ann", "order-1", 2)

    def test_no_is_not_tried_again(self):
        for code, reason in (
            (CODE.FAILED_PRECONDITION, "SOLD_OUT"),
            (CODE.FAILED_PRECONDITION, "ALL_HELD"),
            (CODE.FAILED_PRECONDITION, "PAUSED"),
            (CODE.INVALID_ARGUMENT, "REQUEST_MISMATCH"),
            (CODE.NOT_FOUND, "ALLOTMENT_NOT_FOUND"),
            (CODE.PERMISSION_DENIED, "CALLER_NOT_ALLOWED"),
        ):
            with self.subTest(reason):
                self.scripted.requests.clear()
                with self.assertRaises(Refusal) as no:
                    self.hold_after(said(code, reason, sold="3"))
                self.assertEqual((no.exception.reason, no.exception.facts), (reason, {"sold": "3"}))
                self.assertEqual(len(self.scripted.requests), 1)

    def test_open_is_tried_again_with_the_same_request(self):
        for code, reason in (
            (CODE.UNAVAILABLE, "STORE_UNAVAILABLE"),
            (CODE.UNAVAILABLE, "RESULT_UNKNOWN"),
            (CODE.RESOURCE_EXHAUSTED, "QUEUE_FULL"),
        ):
            with self.subTest(reason):
                self.scripted.requests.clear()
                # One more than gRPC itself tries, so that until_known has to.
                self.assertEqual(self.hold_after(*[said(code, reason, wait=1)] * 6).id, "concert.1")
                self.assertEqual(len(self.scripted.requests), 7)
                self.assertTrue(all(request == self.scripted.requests[0] for request in self.scripted.requests))

    def test_without_a_decision_it_is_tried_again(self):
        self.hold_after((CODE.INTERNAL, []), (CODE.UNKNOWN, []))
        self.assertEqual(len(self.scripted.requests), 3)

    def test_a_sale_of_which_nothing_is_left_is_a_no(self):
        self.assertEqual(self.client.confirm("concert.1", "0").quantity, 2)
        self.assertEqual(self.client.confirm("concert.1", "1").cancelled_quantity, 1)
        self.assertEqual(self.client.confirm("concert.1", "empty").quantity, 0)
        with self.assertRaises(Refusal) as no:
            self.client.confirm("concert.1", "2")
        self.assertEqual((no.exception.reason, no.exception.hold_lost), ("SALE_CANCELLED", True))

    def test_too_large_is_not_tried_again_by_us(self):
        self.assertFalse(Answer(FakeError(CODE.RESOURCE_EXHAUSTED)).open)

    def test_patience_ends(self):
        def call(_):
            raise FakeError(CODE.UNAVAILABLE)

        with self.assertRaises(Unknown):
            until_known(call, 0.001)

    def test_wait(self):
        answer = Answer(FakeError(CODE.UNAVAILABLE))
        for tries, limit in ((1, 0.5), (2, 1.0), (4, 4.0), (20, 5.0)):
            for _ in range(100):
                self.assertLessEqual(wait_of(answer, tries), limit)
        answer.wait = 1.234
        self.assertEqual(wait_of(answer, 1), 1.234)
        for answer.wait in (0, -1):  # not again at once, and for ever
            self.assertGreater(max(wait_of(answer, 20) for _ in range(10)), 0)


if __name__ == "__main__":
    unittest.main()
