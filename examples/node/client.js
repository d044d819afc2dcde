// Calls Holdfast as a checkout should.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import { millis, readAnswer, Refusal, untilKnown, waitOf } from './answers.js';
import { InventoryService, repository } from './protos.js';

// How long a caller goes on, in ms, while the outcome of a call is open. A confirm is worth more: the buyer has paid.
const HOLD_PATIENCE = 10_000;
const CONFIRM_PATIENCE = 60_000;
// A watch is opened anew that often, in ms.
const WATCH_TIME = 300_000;

// The service config says between which servers calls take turns, how long one may take, and when gRPC itself makes it again: where the connection broke
// or the server asks for it, five times at most. What is open then is made again by untilKnown, whose waits are longer. That these are two loops,
// one in the other, is meant: gRPC's is the quick one, which keeps to the server's times, but knows neither codes like INTERNAL nor a try that hangs.
const OPTIONS = {
  'grpc.service_config': readFileSync(join(repository, 'client/serviceconfig.json'), 'utf8'),
  'grpc.service_config_disable_resolution': 1, // what DNS may say of it
  'grpc.keepalive_time_ms': 20_000, // a server ends connections that ping more often than every 10 s
  'grpc.keepalive_timeout_ms': 5_000,
  'grpc.keepalive_permit_without_calls': 1,
  'grpc.max_reconnect_backoff_ms': 3_000, // so that a server that is back is soon found
};

export class Client {
  // address is host:port, or dns:///host:port for a name with several addresses. Without credentials all is in plain text.
  constructor(address, credentials = grpc.credentials.createInsecure()) {
    this.stub = new InventoryService(address, credentials, OPTIONS);
  }

  // hold takes units for an order until the hold's deadline, which is in remainingMs. The order's id is the request id of all tries, so that
  // there is one hold at most. A repeat gets the hold as it is now.
  async hold({ allotmentId, buyerId, orderId, quantity }) {
    const { hold } = await this.#call('createHold', { allotmentId, buyerId, requestId: orderId, quantity }, HOLD_PATIENCE);
    const ended = { HOLD_STATE_LAPSED: 'HOLD_LAPSED', HOLD_STATE_CANCELLED: 'HOLD_CANCELLED' }[hold.state];
    if (ended) throw new Refusal({ reason: ended, message: 'a new try needs a new order', facts: { hold_id: hold.id } });
    return { ...hold, remainingMs: millis(hold.remaining) };
  }

  // cancel gives a hold's units back at once. One that nobody cancels lapses by itself.
  async cancel(holdId) {
    await this.#call('cancelHold', { holdId }, HOLD_PATIENCE);
  }

  // confirm turns a hold into a sale. The order id makes it one sale, whatever is repeated. A repeat gets the sale as it is now; if all of it was
  // cancelled meanwhile, that is a no.
  async confirm(holdId, orderId) {
    const { sale } = await this.#call('confirmHold', { holdId, orderId }, CONFIRM_PATIENCE);
    if (sale.quantity > 0 && sale.cancelledQuantity === sale.quantity) throw new Refusal({ reason: 'SALE_CANCELLED', message: 'all of it', facts: { hold_id: holdId } });
    return sale;
  }

  // watch gives the numbers of an allotment, now and as they change, until its reader stops. One that reads slowly misses numbers in
  // between, never the latest.
  async *watch(allotmentId) {
    let version = 0;
    for (let tries = 1; ; tries++) {
      const stream = this.stub.watchAvailability({ allotmentIds: [allotmentId] }, { deadline: Date.now() + WATCH_TIME });
      stream.on('error', () => {}); // that of the cancel below, which nobody reads
      try {
        for await (const { availability } of stream) {
          tries = 0;
          if (availability.version <= version) continue; // read before the stream was opened anew
          version = availability.version;
          yield availability;
        }
      } catch (error) {
        const answer = readAnswer(error);
        if (!answer.open) throw new Refusal(answer);
        await sleep(waitOf(answer, tries));
      } finally {
        stream.cancel();
      }
    }
  }

  close() {
    this.stub.close();
  }

  #call(method, request, patience) {
    return call(this.stub, method, request, patience);
  }
}

// call makes a call until its outcome is known.
export function call(stub, method, request, patience) {
  return untilKnown((deadline) => new Promise((resolve, reject) => {
    stub[method](request, { deadline }, (error, response) => (error ? reject(error) : resolve(response)));
  }), patience);
}
