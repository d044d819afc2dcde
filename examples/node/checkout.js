// One checkout: hold, pay, confirm; the hold goes back if the buyer does not pay, and the money if the hold was lost meanwhile.
import { Refusal, Unknown } from './answers.js';

// What may come after a state.
const FOLLOWS = { HOLDING: ['PAYING'], PAYING: ['PAID', 'GIVEN_UP'], PAID: ['SOLD', 'REFUNDING'], REFUNDING: ['REFUNDED'] };

// checkout goes on with an order from where it is, to SOLD, REFUNDED or GIVEN_UP, or PAYING if it is not known yet whether it is paid, and returns it.
// It throws what keeps it from there: a Refusal, an Unknown, or what the shop throws. The order stays as it was stored last then, and checkout goes
// on from there when it is called again.
//
// `order` is a row of the shop's database: {orderId, allotmentId, buyerId, quantity, state, holdId, payBefore}. It is stored as HOLDING before the first
// call. `shop` is what is yours:
//
//   store(order)   keeps the order, and throws if it could not.
//   pay(order)     asks the payment provider for what became of the order, and charges under the order's id if it is neither paid nor payBefore
//                  (ms, as Date.now()) over. Returns 'PAID'; or 'GIVEN_UP' if no money was taken and none will be. If it returns anything else, or
//                  throws, that is not known yet, and the order stays PAYING.
//   refund(order)  gives back what was paid, under the order's id: once, however often it is called.
export async function checkout(client, shop, order) {
  const next = await step(client, shop, order);
  if (!FOLLOWS[order.state]?.includes(next.state)) return order;
  await shop.store(next);
  return checkout(client, shop, next);
}

async function step(client, shop, order) {
  switch (order.state) {
    case 'HOLDING': {
      const hold = await client.hold(order);
      return { ...order, state: 'PAYING', holdId: hold.id, payBefore: Date.now() + hold.remainingMs };
    }
    case 'PAYING':
      return { ...order, state: await shop.pay(order) };
    case 'PAID':
      return { ...order, state: await confirm(client, order) };
    case 'REFUNDING':
      await shop.refund(order);
      return { ...order, state: 'REFUNDED' };
    case 'GIVEN_UP':
      await giveBack(client, order);
  }
  return order;
}

// giveBack lets the next one have the units at once. If it fails, the hold lapses.
async function giveBack(client, { holdId }) {
  try {
    await client.cancel(holdId);
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof Unknown)) throw error; // a mistake in this program
  }
}

// confirm says what becomes of a paid order. One that is REFUNDING is never confirmed again: units that have come back meanwhile would be sold.
async function confirm(client, { holdId, orderId }) {
  try {
    await client.confirm(holdId, orderId);
    return 'SOLD';
  } catch (error) {
    if (error instanceof Refusal && error.holdLost) return 'REFUNDING';
    throw error;
  }
}
