// A server that gives the answers a test asks for, and counts the requests that reach it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import grpc from '@grpc/grpc-js';
import { Refusal, Unknown, untilKnown, waitOf } from './answers.js';
import { Client } from './client.js';
import { InventoryService, messages } from './protos.js';

const { status } = grpc;
const server = new grpc.Server();
let answers = []; // still to be given; then holds
let requests = []; // that came
let client;

before(async () => {
  server.addService(InventoryService.service, {
    createHold({ request }, callback) {
      requests.push(request);
      const answer = answers.shift();
      callback(answer ?? null, { hold: { id: 'concert.1', state: 'HOLD_STATE_HELD', remaining: { seconds: 1, nanos: 5e8 } } });
    },
    // Two units, and as many as the order's id says cancelled since; or a sale that says nothing.
    confirmHold({ request }, callback) {
      callback(null, { sale: request.orderId === 'empty' ? {} : { quantity: 2, cancelledQuantity: Number(request.orderId) } });
    },
  });
  const port = await new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound)));
  });
  client = new Client(`127.0.0.1:${port}`);
});

after(() => {
  client.close();
  server.forceShutdown();
});

// packed is a detail of a status.
const packed = (name, message) => ({ type_url: `type.googleapis.com/google.rpc.${name}`, value: messages(name).serialize(message) });

// answerOf is an answer as Holdfast gives it; wait, in ms: when to come again.
function answerOf(code, reason, metadata, wait) {
  const details = [packed('ErrorInfo', { reason, domain: 'holdfast.v1', metadata })];
  const trailer = new grpc.Metadata();
  if (wait !== undefined) {
    details.push(packed('RetryInfo', { retryDelay: { seconds: 0, nanos: wait * 1e6 } }));
    trailer.set('grpc-retry-pushback-ms', String(wait));
  }
  trailer.set('grpc-status-details-bin', messages('Status').serialize({ details }));
  return { code, details: 'said by the test', metadata: trailer };
}

// holdAfter asks for a hold of a server that first gives these answers.
function holdAfter(...first) {
  answers = first;
  requests = [];
  return client.hold({ allotmentId: 'concert', buyerId: 'ann', orderId: 'order-1', quantity: 2 });
}

for (const [code, reason] of [
  ['FAILED_PRECONDITION', 'SOLD_OUT'], ['FAILED_PRECONDITION', 'ALL_HELD'], ['FAILED_PRECONDITION', 'PAUSED'],
  ['INVALID_ARGUMENT', 'REQUEST_MISMATCH'], ['NOT_FOUND', 'ALLOTMENT_NOT_FOUND'], ['PERMISSION_DENIED', 'CALLER_NOT_ALLOWED'],
]) {
  test(`${reason} is not tried again`, async () => {
    await assert.rejects(holdAfter(answerOf(status[code], reason, { sold: '3' })),
      (error) => error instanceof Refusal && error.reason === reason && error.facts.sold === '3');
    assert.equal(requests.length, 1);
  });
}

test('a request that is too large is not tried again by us', async () => {
  await assert.rejects(untilKnown(() => Promise.reject({ code: status.RESOURCE_EXHAUSTED, details: '', metadata: new grpc.Metadata() }), 1000),
    Refusal);
});

for (const [code, reason] of [['UNAVAILABLE', 'STORE_UNAVAILABLE'], ['UNAVAILABLE', 'RESULT_UNKNOWN'], ['RESOURCE_EXHAUSTED', 'QUEUE_FULL']]) {
  test(`${reason} is tried again with the same request`, async () => {
    // One more than gRPC itself tries, so that untilKnown has to.
    const hold = await holdAfter(...Array.from({ length: 6 }, () => answerOf(status[code], reason, {}, 1)));
    assert.deepEqual([hold.id, hold.remainingMs], ['concert.1', 1500]);
    assert.equal(requests.length, 7);
    for (const request of requests) assert.deepEqual(request, requests[0]);
  });
}

test('an answer that leaves the outcome open is tried again', async () => {
  await holdAfter({ code: status.INTERNAL }, { code: status.UNKNOWN });
  assert.equal(requests.length, 3);
});

test('a sale of which nothing is left is a no', async () => {
  assert.equal((await client.confirm('concert.1', '0')).quantity, 2);
  assert.equal((await client.confirm('concert.1', '1')).cancelledQuantity, 1);
  assert.equal((await client.confirm('concert.1', 'empty')).quantity, 0);
  await assert.rejects(client.confirm('concert.1', '2'), (error) => error.reason === 'SALE_CANCELLED' && error.holdLost);
});

test('what is not known when patience is over is neither yes nor no', async () => {
  const open = { code: status.UNAVAILABLE, details: '', metadata: new grpc.Metadata() };
  await assert.rejects(untilKnown(() => Promise.reject(open), 1), Unknown);
});

test('a mistake in the program is not tried again', async () => {
  let tries = 0;
  await assert.rejects(untilKnown(() => { tries++; throw new TypeError('mistake'); }, 1000), TypeError);
  assert.equal(tries, 1);
});

test('the wait is what the server asks for, else random up to a limit', () => {
  assert.equal(waitOf({ wait: 1234 }, 1), 1234);
  const again = Array.from({ length: 10 }, () => waitOf({ wait: 0 }, 20));
  assert(Math.max(...again) > 0, 'again at once, and for ever');
  for (const [tries, limit] of [[1, 500], [2, 1000], [4, 4000], [20, 5000]]) {
    for (let i = 0; i < 100; i++) {
      const wait = waitOf({}, tries);
      assert(wait >= 0 && wait <= limit);
    }
  }
});
