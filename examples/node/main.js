// A small sale: three units, five buyers, a declined card, a cut connection, and a buyer who pays too late. HOLDFAST_ADDR is where Holdfast is
// (127.0.0.1:50051).
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import grpc from '@grpc/grpc-js';
import { Refusal } from './answers.js';
import { checkout } from './checkout.js';
import { call, Client } from './client.js';
import { startCut } from './cut.js';
import { AdminService } from './protos.js';

const address = process.env.HOLDFAST_ADDR ?? '127.0.0.1:50051';
const allotmentId = `concert-${randomBytes(4).toString('hex')}`;

// open is the operator's part: opens the allotment for sale.
async function open() {
  const admin = new AdminService(address, grpc.credentials.createInsecure());
  await call(admin, 'createAllotment', { allotment: { id: allotmentId, capacity: 3, holdDuration: { seconds: 5 } } }, 10_000);
  admin.close();
}

// seen waits until a watch has shown these numbers.
async function seen(numbers, available, held, sold) {
  let now;
  do {
    ({ value: now } = await numbers.next());
  } while (now.available !== available || now.held !== held || now.sold !== sold);
  console.log(`  watch: ${available} available, ${held} held, ${sold} sold`);
}

// refused makes sure that a call is refused for this reason, and shows the numbers that come with it.
async function refused(reason, outcome, ...facts) {
  const error = await outcome.then(() => assert.fail(`not ${reason}`), (e) => e);
  assert(error instanceof Refusal && error.reason === reason, error);
  console.log(`  no: ${[reason, ...facts.map((fact) => `${fact} ${error.facts[fact]}`)].join(', ')}`);
}

// orderOf is what a shop stores first.
const orderOf = (buyerId, quantity) => ({ orderId: `${buyerId}-order-1`, allotmentId, buyerId, quantity, state: 'HOLDING' });

// shop has neither database nor payment provider; it says what it would do with them. `paying` is what comes of a buyer's payment.
const shopOf = (paying = async () => 'PAID') => ({
  async store({ orderId, state }) {
    console.log(`  ${orderId} is ${state}`);
  },
  async pay(order) {
    const state = await paying(order);
    if (state === 'PAID') console.log(`  ${order.buyerId} pays`);
    return state;
  },
  async refund({ buyerId }) {
    console.log(`  ${buyerId} gets the money back`);
  },
});

async function main() {
  await open();
  const client = new Client(address);
  const numbers = client.watch(allotmentId);
  console.log(`${allotmentId}: 3 units, a hold lasts 5 s`);
  await seen(numbers, 3, 0, 0);

  console.log('ann buys 2');
  await checkout(client, shopOf(async ({ holdId }) => {
    console.log(`  held: ${holdId}`);
    await seen(numbers, 1, 2, 0);
    return 'PAID';
  }), orderOf('ann', 2));
  await seen(numbers, 1, 0, 2);

  console.log('eve wants one, and her card is declined');
  await checkout(client, shopOf(async () => {
    await seen(numbers, 0, 1, 2);
    return 'GIVEN_UP';
  }), orderOf('eve', 1));
  await seen(numbers, 1, 0, 2);
  console.log('the same order once more: a new try needs a new order');
  await refused('HOLD_CANCELLED', client.hold(orderOf('eve', 1)));

  console.log('dot wants 2');
  await refused('SOLD_OUT', client.hold(orderOf('dot', 2)), 'requested', 'capacity', 'sold', 'held');

  console.log('bob wants the last one, and the connection is cut when the answer comes');
  const cut = await startCut(address);
  const unlucky = new Client(cut.address);
  const late = await checkout(unlucky, shopOf(async ({ holdId }) => {
    assert.equal(cut.count, 1);
    console.log(`  held, after ${cut.count} cut: ${holdId}`);
    assert.equal((await client.hold(orderOf('bob', 1))).id, holdId);
    console.log('  the same order once more, as after a crash of the shop: the same hold');
    await seen(numbers, 0, 1, 2);

    console.log('cid wants it, too');
    await refused('ALL_HELD', client.hold(orderOf('cid', 1)), 'requested', 'capacity', 'sold', 'held', 'next_lapse_time');

    console.log('bob takes longer than his hold lasts');
    await seen(numbers, 1, 0, 2);

    console.log('cid tries again, with the same order');
    console.log(`  held: ${(await client.hold(orderOf('cid', 1))).id}`);
    await seen(numbers, 0, 1, 2);
    console.log('bob is ready at last');
    return 'PAID';
  }), orderOf('bob', 1));
  assert.equal(late.state, 'REFUNDED');

  console.log('cid goes on with his hold');
  await checkout(client, shopOf(), orderOf('cid', 1));
  await seen(numbers, 0, 0, 3);

  await numbers.return();
  client.close();
  unlucky.close();
  cut.close();
}

await main();
