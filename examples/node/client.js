// Calls Holdfast as a checkout should.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import { readAnswer, Refusal, untilKnown, waitOf } from './answers.js';
import { InventoryService, repository } from './protos.js';

// How long a caller goes on, in ms, while the outcome of a call is open. A confirm is worth more: the buyer has paid.
const HOLD_PATIENCE = 10_000;
const CONFIRM_PATIENCE = 60_000;
// A watch is opened anew that often, in ms.
const WATCH_TIME = 300_000;

// The service config says between which servers calls take turns, how long one may take, and when gRPC itself makes it again. A try that
// ends without an answer, or with a code that leaves the outcome open, is made again by gRPC; what is then still open, by untilKnown.
const OPTIONS = {
  'grpc.service_config': readFileSync(join(repository, 'client/serviceconfig.json'), 'utf8'),
  'grpc.service_config_disable_resolution': 1, // what DNS may say of it
  'grpc.keepalive_time_ms': 20_000, // a server ends connections that ping more often than every 10 s
  'grpc.keepalive_timeout_ms': 5_000,
  'grpc.keepalive_permit_without_calls': 1,
  'grpc.max_reconnect_backoff_ms': 3_000, // so that a server that is back is soon found
};

export class Client {
  // address is host:port, or dns:///host:port for a name with several addresses. Over a network use grpc.credentials.createSsl.
  constructor(address) {
    this.stub = new InventoryService(address, grpc.credentials.createInsecure(), OPTIONS);
  }

  // hold takes units for a buyer until the hold's deadline. requestId names the buyer's intent: all tries have the same, so that
  // there is one hold at most. A repeat gets the hold as it is now.
  async hold({ allotmentId, buyerId, requestId, quantity }) {
    const { hold } = await this.#call('createHold', { allotmentId, buyerId, requestId, quantity }, HOLD_PATIENCE);
    const ended = { HOLD_STATE_LAPSED: 'HOLD_LAPSED', HOLD_STATE_CANCELLED: 'HOLD_CANCELLED' }[hold.state];
    if (ended) throw new Refusal({ reason: ended, message: 'a new intent needs a new request id', facts: { hold_id: hold.id } });
    return hold;
  }

  // cancel gives a hold's units back at once. One that nobody cancels lapses by itself.
  async cancel(holdId) {
    await this.#call('cancelHold', { holdId }, HOLD_PATIENCE);
  }

  // confirm turns a hold into a sale. The order id makes it one sale, whatever is repeated.
  async confirm(holdId, orderId) {
    return (await this.#call('confirmHold', { holdId, orderId }, CONFIRM_PATIENCE)).sale;
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
