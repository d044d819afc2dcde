// One checkout: hold, pay, confirm, and refund if the hold was lost meanwhile.
import { Refusal } from './answers.js';

// checkout sells to a buyer. `order` has the ids, which a shop keeps before the first call, so that it can go on from any point:
// {allotmentId, buyerId, requestId, quantity, orderId}. `pay` is called with the hold and gives a payment with a refund().
//
// Throws a Refusal if nothing was sold, and nothing stays paid. Throws an Unknown if it is not known: where it is the confirm's, the buyer
// has paid; neither refund nor sell again, but repeat the confirm until it is a sale or a Refusal.
export async function checkout(client, order, pay) {
  const hold = await client.hold(order);
  const payment = await pay(hold);
  try {
    return await client.confirm(hold.id, order.orderId);
  } catch (error) {
    if (error instanceof Refusal && error.holdLost) await payment.refund();
    throw error;
  }
}
