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

const order = (buyerId, quantity) => ({ allotmentId, buyerId, requestId: `${buyerId}-cart-1`, orderId: `${buyerId}-order-1`, quantity });

// tillOf is where a buyer pays, after what happens meanwhile.
const tillOf = (buyer, meanwhile = async () => {}) => ({
  async charge(hold) {
    await meanwhile(hold);
    console.log(`  ${buyer} pays`);
  },
  async refund() {
    console.log(`  ${buyer} is refunded`);
  },
});

async function main() {
  await open();
  const client = new Client(address);
  const numbers = client.watch(allotmentId);
  console.log(`${allotmentId}: 3 units, a hold lasts 5 s`);
  await seen(numbers, 3, 0, 0);

  console.log('ann buys 2');
  const sale = await checkout(client, order('ann', 2), tillOf('ann', async (hold) => {
    console.log(`  held: ${hold.id}`);
    await seen(numbers, 1, 2, 0);
  }));
  console.log(`  sold: ${sale.quantity} units, ${sale.orderId}`);
  await seen(numbers, 1, 0, 2);

  console.log('eve wants one, and her card is declined');
  const declined = checkout(client, order('eve', 1), tillOf('eve', async () => {
    await seen(numbers, 0, 1, 2);
    throw new Error('declined');
  }));
  await assert.rejects(declined, /declined/);
  await seen(numbers, 1, 0, 2);
  console.log('the same request once more: a new try needs a new request id');
  await refused('HOLD_CANCELLED', client.hold(order('eve', 1)));

  console.log('dot wants 2');
  await refused('SOLD_OUT', client.hold(order('dot', 2)), 'requested', 'capacity', 'sold', 'held');

  console.log('bob wants the last one, and the connection is cut when the answer comes');
  const cut = await startCut(address);
  const unlucky = new Client(cut.address);
  const late = checkout(unlucky, order('bob', 1), tillOf('bob', async (hold) => {
    assert.equal(cut.count, 1);
    console.log(`  held, after ${cut.count} cut: ${hold.id}`);
    assert.equal((await client.hold(order('bob', 1))).id, hold.id);
    console.log('  the same request once more, as after a crash of the shop: the same hold');
    await seen(numbers, 0, 1, 2);

    console.log('cid wants it, too');
    await refused('ALL_HELD', client.hold(order('cid', 1)), 'requested', 'capacity', 'sold', 'held', 'next_lapse_time');

    console.log('bob takes longer than his hold lasts');
    await seen(numbers, 1, 0, 2);

    console.log('cid tries again, with the same request');
    console.log(`  held: ${(await client.hold(order('cid', 1))).id}`);
    await seen(numbers, 0, 1, 2);
    console.log('bob is ready at last');
  }));
  await refused('HOLD_LAPSED', late);

  console.log('cid goes on with his hold');
  await checkout(client, order('cid', 1), tillOf('cid'));
  await seen(numbers, 0, 0, 3);

  await numbers.return();
  client.close();
  unlucky.close();
  cut.close();
}

await main();
