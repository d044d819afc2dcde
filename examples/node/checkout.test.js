// A client and a shop that say what a test asks for.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Refusal, Unknown } from './answers.js';
import { checkout } from './checkout.js';

const no = (reason) => new Refusal({ reason, message: '', facts: {} });
const unknown = new Unknown({ reason: 'UNAVAILABLE', message: '' });
const away = new Error('away');

// play goes on with an order from a state, while the steps in `fails` throw. `done` is what was done: calls, and the states stored.
async function play(state, fails = {}, paid = 'PAID') {
  const done = [];
  let kept = { orderId: 'order-1', state };
  const step = (name, result) => async () => {
    done.push(name);
    if (fails[name]) throw fails[name];
    return result;
  };
  const client = { hold: step('hold', { id: 'concert.1', remainingMs: 1000 }), confirm: step('confirm'), cancel: step('cancel') };
  const shop = {
    pay: step('pay', paid),
    refund: step('refund'),
    async store(order) {
      await step(order.state)();
      kept = order;
    },
  };
  const error = await checkout(client, shop, kept).then(() => undefined, (e) => e);
  return { done: done.join(' '), ends: kept.state, error, again: () => play(kept.state) };
}

for (const [name, state, fails, done, ends, paid] of [
  ['sold', 'HOLDING', {}, 'hold PAYING pay PAID confirm SOLD', 'SOLD'],
  ['sold out', 'HOLDING', { hold: no('SOLD_OUT') }, 'hold', 'HOLDING'],
  ['its hold has lapsed', 'HOLDING', { hold: no('HOLD_LAPSED') }, 'hold', 'HOLDING'],
  ['declined', 'HOLDING', {}, 'hold PAYING pay GIVEN_UP cancel', 'GIVEN_UP', 'GIVEN_UP'],
  ['not stored, not charged', 'HOLDING', { PAYING: away }, 'hold PAYING', 'HOLDING'],
  ['not known whether paid', 'PAYING', { pay: away }, 'pay', 'PAYING'],
  ['payment is pending', 'PAYING', {}, 'pay', 'PAYING', 'pending'],
  ['pay returns nothing', 'PAYING', {}, 'pay', 'PAYING', null],
  ['payment sells nothing', 'PAYING', {}, 'pay', 'PAYING', 'SOLD'],
  ['crashed while paying', 'PAYING', {}, 'pay PAID confirm SOLD', 'SOLD'],
  ['paid is not charged again', 'PAID', {}, 'confirm SOLD', 'SOLD'],
  ['paid, and not known whether sold', 'PAID', { confirm: unknown }, 'confirm', 'PAID'],
  ['paid, and lapsed', 'PAID', { confirm: no('HOLD_LAPSED') }, 'confirm REFUNDING refund REFUNDED', 'REFUNDED'],
  ['paid, and cancelled', 'PAID', { confirm: no('HOLD_CANCELLED') }, 'confirm REFUNDING refund REFUNDED', 'REFUNDED'],
  ['paid, and the sale cancelled', 'PAID', { confirm: no('SALE_CANCELLED') }, 'confirm REFUNDING refund REFUNDED', 'REFUNDED'],
  ['paid, and no such hold', 'PAID', { confirm: no('HOLD_NOT_FOUND') }, 'confirm', 'PAID'],
  ['paid, and another no', 'PAID', { confirm: no('ORDER_MISMATCH') }, 'confirm', 'PAID'],
  ['no refund before it is stored', 'PAID', { confirm: no('HOLD_LAPSED'), REFUNDING: away }, 'confirm REFUNDING', 'PAID'],
  ['refund fails', 'REFUNDING', { refund: away }, 'refund', 'REFUNDING'],
  ['a refund is never a sale again', 'REFUNDING', {}, 'refund REFUNDED', 'REFUNDED'],
  ['not cancelled, and given up all the same', 'GIVEN_UP', { cancel: unknown }, 'cancel', 'GIVEN_UP'],
  ['sold before', 'SOLD', {}, '', 'SOLD'],
  ['refunded before', 'REFUNDED', {}, '', 'REFUNDED'],
]) {
  test(name, async () => {
    const played = await play(state, fails, paid);
    assert.deepEqual([played.done, played.ends], [done, ends]);
    assert.equal(played.error, ends === 'GIVEN_UP' ? undefined : Object.values(fails).find((e) => !e.holdLost || state === 'HOLDING'));
  });
}

test('a mistake while giving the hold back is not hidden', async () => {
  const mistake = new TypeError('mistake');
  assert.equal((await play('GIVEN_UP', { cancel: mistake })).error, mistake);
});

test('a confirm that is not known goes on with the confirm, and pays and holds no more', async () => {
  const first = await play('HOLDING', { confirm: unknown });
  assert.deepEqual([first.done, first.error], ['hold PAYING pay PAID confirm', unknown]);
  assert.equal((await first.again()).done, 'confirm SOLD');
});
