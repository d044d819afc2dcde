// What came of a call that did not go well: a no, or nothing that is known.
import { setTimeout as sleep } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import { messages } from './protos.js';

const { status } = grpc;

// Bounds of the wait before a try, in ms, where the server does not say how long. gRPC has waited and tried before, for less.
const FIRST_WAIT = 500;
const LONGEST_WAIT = 5000;

// Codes that leave open whether the call was done. All others are a no, but for RESOURCE_EXHAUSTED: without RetryInfo that is a request that is
// too large.
const OPEN = [status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.CANCELLED, status.UNKNOWN, status.INTERNAL, status.DATA_LOSS];

// Refusal is a no: the server has decided, and the same call gets the same answer until something else changes.
export class Refusal extends Error {
  constructor(answer) {
    super(`${answer.reason}: ${answer.message}`);
    this.reason = answer.reason; // such as SOLD_OUT: proto/holdfast/v1/error_reason.proto
    this.facts = answer.facts; // its metadata
  }

  // holdLost tells, of a confirm, that the buyer does not get the units, and is to be refunded. Store that before the money goes back: a lapsed hold is
  // sold by a later confirm if its units have come back meanwhile. HOLD_NOT_FOUND is for a person to look at: the service may be the wrong one.
  get holdLost() {
    return ['HOLD_LAPSED', 'HOLD_CANCELLED', 'SALE_CANCELLED'].includes(this.reason);
  }
}

// Unknown is neither yes nor no: the time is up, and the call may have been done. The same call with the same ids tells.
export class Unknown extends Error {
  constructor(answer) {
    super(`not known whether it was done, repeat it with the same ids: ${answer.reason}: ${answer.message}`);
  }
}

// readAnswer takes an error of gRPC's apart.
export function readAnswer(error) {
  if (status[error.code] === undefined) throw error; // a mistake in this program
  const answer = { reason: status[error.code], message: error.details, facts: {}, wait: undefined };
  for (const detail of details(error)) {
    if (detail.name === 'ErrorInfo' && detail.domain === 'holdfast.v1') {
      answer.reason = detail.reason;
      answer.facts = detail.metadata;
    } else if (detail.name === 'RetryInfo') {
      answer.wait = millis(detail.retryDelay);
    }
  }
  answer.open = OPEN.includes(error.code) || (error.code === status.RESOURCE_EXHAUSTED && answer.wait !== undefined);
  return answer;
}

// millis is a google.protobuf.Duration in ms; 0 for none.
export const millis = (duration) => (duration ? duration.seconds * 1000 + duration.nanos / 1e6 : 0);

function details(error) {
  const [bytes] = error.metadata.get('grpc-status-details-bin');
  if (bytes === undefined) return [];
  return messages('Status').deserialize(bytes).details.flatMap((any) => {
    const name = any.type_url.replace('type.googleapis.com/google.rpc.', '');
    return ['ErrorInfo', 'RetryInfo'].includes(name) ? [{ name, ...messages(name).deserialize(any.value) }] : [];
  });
}

// waitOf is how many ms to wait before the try after so many: what the server asks for, since it has spread its callers; else a random time up
// to a limit that doubles, so that callers who were cut off together do not come back together. Who asks for no time has asked for nothing.
export function waitOf(answer, tries) {
  return answer.wait > 0 ? answer.wait : Math.random() * Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (tries - 1));
}

// untilKnown makes a call, which gets its deadline, until its outcome is known, or throws Unknown when patience (ms) is over.
export async function untilKnown(call, patience) {
  const end = Date.now() + patience;
  for (let tries = 1; ; tries++) {
    try {
      return await call(end);
    } catch (error) {
      const answer = readAnswer(error);
      if (!answer.open) throw new Refusal(answer);
      const wait = waitOf(answer, tries);
      if (Date.now() + wait >= end) throw new Unknown(answer);
      await sleep(wait);
    }
  }
}
