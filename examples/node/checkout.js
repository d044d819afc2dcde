// One checkout: hold, pay, confirm; cancel if the buyer does not pay, and refund if the hold was lost meanwhile.
import { Refusal } from './answers.js';

// checkout sells to a buyer. `order` has the ids, which a shop keeps before the first call, so that it can go on from any point:
// {allotmentId, buyerId, requestId, quantity, orderId}. `till` takes the money, charge(hold), and gives it back, refund().
//
// Throws a Refusal if nothing was sold, and nothing stays paid. Throws an Unknown if it is not known: where it is the confirm's, the buyer
// has paid; neither refund nor sell again, but call checkout again with the same order until it gives a sale or a Refusal.
export async function checkout(client, order, till) {
  const hold = await client.hold(order);
  // Else it is SOLD or CONFIRMING: it was paid for before this shop crashed or gave up.
  if (hold.state === 'HOLD_STATE_HELD') await charge(client, hold, till);
  try {
    return await client.confirm(hold.id, order.orderId);
  } catch (error) {
    if (error instanceof Refusal && error.holdLost) await till.refund();
    throw error;
  }
}

async function charge(client, hold, till) {
  try {
    await till.charge(hold);
  } catch (error) {
    await client.cancel(hold.id).catch(() => {}); // else it lapses
    throw error;
  }
}
