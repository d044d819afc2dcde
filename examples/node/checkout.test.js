// A client that says what a test asks for; `done` is what was done with the buyer's money and hold.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Refusal, Unknown } from './answers.js';
import { checkout } from './checkout.js';

const refusal = (reason) => new Refusal({ reason, message: '', facts: {} });
const unknown = new Unknown({ reason: 'UNAVAILABLE', message: '' });

// play is a checkout that finds its hold in this state, and whose charge and confirm fail with these errors, if any.
async function play({ state = 'HOLD_STATE_HELD', charge, confirm }) {
  const done = [];
  const step = (name, error) => async () => {
    done.push(name);
    if (error) throw error;
  };
  const client = { hold: async () => ({ id: 'concert.1', state }), confirm: step('confirm', confirm), cancel: step('cancel') };
  const error = await checkout(client, { orderId: 'order-1' }, { charge: step('charge', charge), refund: step('refund') }).then(() => undefined, (e) => e);
  assert.equal(error, charge ?? confirm);
  return done.join(' ');
}

for (const [name, played, done] of [
  ['a buyer pays, and it is sold', {}, 'charge confirm'],
  ['who has paid before does not pay again', { state: 'HOLD_STATE_SOLD' }, 'confirm'],
  ['nor while the confirm is under way', { state: 'HOLD_STATE_CONFIRMING' }, 'confirm'],
  ['who does not pay gives the hold back', { charge: new Error('declined') }, 'charge cancel'],
  ['a lapsed hold is refunded', { confirm: refusal('HOLD_LAPSED') }, 'charge confirm refund'],
  ['a cancelled hold is refunded', { confirm: refusal('HOLD_CANCELLED') }, 'charge confirm refund'],
  ['a forgotten hold is refunded', { confirm: refusal('HOLD_NOT_FOUND') }, 'charge confirm refund'],
  ['another no is not refunded', { confirm: refusal('ORDER_MISMATCH') }, 'charge confirm'],
  ['what is not known is not refunded', { confirm: unknown }, 'charge confirm'],
]) {
  test(name, async () => assert.equal(await play(played), done));
}
