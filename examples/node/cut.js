// Loses an answer: a proxy for the demonstration, no part of a checkout.
import net from 'node:net';

const FRAME_HEADER = 9; // bytes of an HTTP/2 frame before its content: 3 of size, 1 of type
const HEADERS = 1; // the type of the frame that an answer begins with

// startCut passes connections on to address, and cuts the first of them when the answer to a call comes: the server has decided then, and the
// caller does not know.
export function startCut(address) {
  const [host, port] = address.split(':');
  const cut = { address: '', count: 0, close: () => server.close() };
  const server = net.createServer((client) => {
    const upstream = net.connect(Number(port), host);
    const end = () => { client.destroy(); upstream.destroy(); };
    client.on('error', end).on('close', end);
    upstream.on('error', end).on('close', end);
    client.pipe(upstream);
    if (cut.count > 0) {
      upstream.pipe(client);
      return;
    }
    passUntilAnswer(upstream, client, () => { cut.count++; end(); });
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      cut.address = `127.0.0.1:${server.address().port}`;
      resolve(cut);
    });
  });
}

// passUntilAnswer passes on whole frames that come before an answer.
function passUntilAnswer(upstream, client, answered) {
  let bytes = Buffer.alloc(0);
  upstream.on('data', (more) => {
    bytes = Buffer.concat([bytes, more]);
    while (bytes.length >= FRAME_HEADER) {
      if (bytes[3] === HEADERS) {
        answered();
        return;
      }
      const size = FRAME_HEADER + bytes.readUIntBE(0, 3);
      if (bytes.length < size) return;
      client.write(bytes.subarray(0, size));
      bytes = bytes.subarray(size);
    }
  });
}
