"""Loses an answer: a proxy for the demonstration, no part of a checkout."""

import socket
import threading

FRAME_HEADER = 9  # bytes of an HTTP/2 frame before its content: 3 of size, 1 of type
HEADERS = 1  # the type of the frame that an answer begins with


class Cut:
    """Passes connections on to address, and cuts the first of them when the answer to a call comes.

    The server has decided then, and the caller does not know.
    """

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.count = 0
        self._upstream = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            client, _ = self._listener.accept()
            upstream = socket.create_connection(self._upstream)
            threading.Thread(target=_pass_on, args=(client, upstream), daemon=True).start()
            if self.count == 0:
                self.count += _pass_until_answer(upstream, client)
                _end(client, upstream)
            else:
                threading.Thread(target=_pass_on, args=(upstream, client), daemon=True).start()


def _pass_until_answer(upstream, client):
    """Passes on whole frames that come before an answer. Tells whether one came."""
    frames = upstream.makefile("rb")
    while True:
        header = frames.read(FRAME_HEADER)
        if len(header) < FRAME_HEADER:
            return False
        if header[3] == HEADERS:
            return True
        client.sendall(header + frames.read(int.from_bytes(header[:3], "big")))


def _pass_on(source, to):
    """Passes on what comes until one of the two ends."""
    try:
        while data := source.recv(65536):
            to.sendall(data)
    except OSError:
        pass  # the other direction has ended it
    _end(source, to)


def _end(*connections):
    for connection in connections:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended
        connection.close()
