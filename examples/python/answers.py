"""What came of a call that did not go well: a no, or nothing that is known."""

import random
import time

import grpc

from protos import errors_pb2

# Bounds of the wait before a try, in seconds, where the server does not say how long. gRPC has waited and tried before, for less.
FIRST_WAIT = 0.5
LONGEST_WAIT = 5.0

# Codes that leave open whether the call was done. All others are a no, but for RESOURCE_EXHAUSTED: without RetryInfo that is a
# request that is too large.
OPEN = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.DATA_LOSS,
}


class Refusal(Exception):
    """A no: the server has decided, and the same call gets the same answer until something else changes."""

    def __init__(self, reason, message, facts):
        super().__init__(f"{reason}: {message}")
        self.reason = reason  # such as SOLD_OUT: proto/holdfast/v1/error_reason.proto
        self.facts = facts  # its metadata

    @property
    def hold_lost(self):
        """Of a confirm: that the buyer does not get the units, and is to be refunded.

        Store that before the money goes back: a lapsed hold is sold by a later confirm if its units have come back meanwhile. HOLD_NOT_FOUND
        is for a person to look at: the service may be the wrong one.
        """
        return self.reason in ("HOLD_LAPSED", "HOLD_CANCELLED", "SALE_CANCELLED")


class Unknown(Exception):
    """Neither yes nor no: the time is up, and the call may have been done. The same call with the same ids tells."""

    def __init__(self, answer):
        super().__init__(f"not known whether it was done, repeat it with the same ids: {answer.reason}: {answer.message}")


class Answer:
    """An error of gRPC's, taken apart."""

    def __init__(self, error):
        self.reason = error.code().name
        self.message = error.details()
        self.facts = {}
        self.wait = None  # seconds, where the server says so
        for detail in _details(error):
            if detail.Is(errors_pb2.ErrorInfo.DESCRIPTOR):
                info = errors_pb2.ErrorInfo.FromString(detail.value)
                if info.domain == "holdfast.v1":
                    self.reason, self.facts = info.reason, dict(info.metadata)
            elif detail.Is(errors_pb2.RetryInfo.DESCRIPTOR):
                self.wait = errors_pb2.RetryInfo.FromString(detail.value).retry_delay.ToTimedelta().total_seconds()
        self.open = error.code() in OPEN or (error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and self.wait is not None)

    def refusal(self):
        """The no that this is, unless it is open."""
        return Refusal(self.reason, self.message, self.facts)


def _details(error):
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return errors_pb2.Status.FromString(value).details
    return ()


def wait_of(answer, tries):
    """How long to wait, in seconds, before the try after so many.

    It is what the server asks for, since it has spread its callers; else a random time up to a limit that doubles, so that callers who
    were cut off together do not come back together. Who asks for no time has asked for nothing.
    """
    if answer.wait is not None and answer.wait > 0:
        return answer.wait
    return random.uniform(0, min(LONGEST_WAIT, FIRST_WAIT * 2 ** (tries - 1)))


def until_known(call, patience):
    """Makes a call, which gets the seconds it has left, until its outcome is known.

    Raises Unknown when patience (seconds) is over.
    """
    end = time.monotonic() + patience
    tries = 0
    while True:
        tries += 1
        try:
            return call(end - time.monotonic())
        except grpc.RpcError as error:
            answer = Answer(error)
            if not answer.open:
                raise answer.refusal() from error
            wait = wait_of(answer, tries)
            if time.monotonic() + wait >= end:
                raise Unknown(answer) from error
        time.sleep(wait)
