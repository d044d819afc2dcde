"""Calls Holdfast as a checkout should."""

import time

import grpc

from answers import Answer, Refusal, until_known, wait_of
from protos import REPOSITORY, hold_pb2, inventory_service_pb2, inventory_service_pb2_grpc

# How long a caller goes on, in seconds, while the outcome of a call is open. A confirm is worth more: the buyer has paid.
HOLD_PATIENCE = 10
CONFIRM_PATIENCE = 60
# A watch is opened anew that often, in seconds.
WATCH_TIME = 300

# The service config says between which servers calls take turns, how long one may take, and when gRPC itself makes it again: where the
# connection broke or the server asks for it, five times at most. What is open then is made again by until_known, whose waits are longer.
# That these are two loops, one in the other, is meant: gRPC's is the quick one, which keeps to the server's times, but knows neither codes
# like INTERNAL nor a try that hangs.
OPTIONS = (
    ("grpc.service_config", (REPOSITORY / "client" / "serviceconfig.json").read_text(encoding="utf-8")),
    ("grpc.service_config_disable_resolution", 1),  # what DNS may say of it
    ("grpc.keepalive_time_ms", 20_000),  # a server ends connections that ping more often than every 10 s
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_reconnect_backoff_ms", 3_000),  # so that a server that is back is soon found
)

_ENDED = {hold_pb2.HOLD_STATE_LAPSED: "HOLD_LAPSED", hold_pb2.HOLD_STATE_CANCELLED: "HOLD_CANCELLED"}


class Client:
    """A connection to each of the servers that its address names: one in a process is enough."""

    def __init__(self, address, credentials=None):
        """address is host:port, or dns:///host:port for a name with several addresses. Without credentials all is in plain text."""
        if credentials:
            self._channel = grpc.secure_channel(address, credentials, options=OPTIONS)
        else:
            self._channel = grpc.insecure_channel(address, options=OPTIONS)
        self._stub = inventory_service_pb2_grpc.InventoryServiceStub(self._channel)

    def hold(self, allotment_id, buyer_id, order_id, quantity):
        """Takes units for an order until the hold's deadline.

        The order's id is the request id of all tries, so that there is one hold at most. A repeat gets the hold as it is now.
        """
        request = inventory_service_pb2.CreateHoldRequest(
            allotment_id=allotment_id, buyer_id=buyer_id, request_id=order_id, quantity=quantity
        )
        hold = until_known(lambda left: self._stub.CreateHold(request, timeout=left), HOLD_PATIENCE).hold
        if hold.state in _ENDED:
            raise Refusal(_ENDED[hold.state], "a new try needs a new order", {"hold_id": hold.id})
        return hold

    def cancel(self, hold_id):
        """Gives a hold's units back at once. One that nobody cancels lapses by itself."""
        request = inventory_service_pb2.CancelHoldRequest(hold_id=hold_id)
        until_known(lambda left: self._stub.CancelHold(request, timeout=left), HOLD_PATIENCE)

    def confirm(self, hold_id, order_id):
        """Turns a hold into a sale. The order id makes it one sale, whatever is repeated.

        A repeat gets the sale as it is now; if all of it was cancelled meanwhile, that is a no.
        """
        request = inventory_service_pb2.ConfirmHoldRequest(hold_id=hold_id, order_id=order_id)
        sale = until_known(lambda left: self._stub.ConfirmHold(request, timeout=left), CONFIRM_PATIENCE).sale
        if 0 < sale.quantity == sale.cancelled_quantity:
            raise Refusal("SALE_CANCELLED", "all of it", {"hold_id": hold_id})
        return sale

    def watch(self, allotment_id):
        """Gives the numbers of an allotment, now and as they change, until its reader stops.

        One that reads slowly misses numbers in between, never the latest.
        """
        request = inventory_service_pb2.WatchAvailabilityRequest(allotment_ids=[allotment_id])
        version = tries = 0
        while True:
            stream = self._stub.WatchAvailability(request, timeout=WATCH_TIME)
            try:
                for response in stream:
                    tries = 0
                    if response.availability.version > version:  # else read before the stream was opened anew
                        version = response.availability.version
                        yield response.availability
            except grpc.RpcError as error:
                answer = Answer(error)
                if not answer.open:
                    raise answer.refusal() from error
                tries += 1
                time.sleep(wait_of(answer, tries))
            finally:
                stream.cancel()

    def close(self):
        """Ends the connections."""
        self._channel.close()
