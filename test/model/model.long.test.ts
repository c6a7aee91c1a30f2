/**
 * Checks the model of the ring of slots (protocol.ts). Its rules hold in every interleaving. Each
 * rule broken on purpose is caught.
 */
import { expect } from 'chai';
import { itAll, itLong } from '../rig/setting.ts';
import { proofsOf } from './proofs.ts';
import { protocol } from './protocol.ts';
import type { Role } from './roles.ts';
import type { Setup } from './setup.ts';

const FOUR: Role[][] = [['pack'], ['submit'], ['poll'], ['replay']];
const THREE: Role[][] = [['pack'], ['submit', 'poll', 'replay']];
const TWO: Role[][] = [
  ['pack', 'submit'],
  ['poll', 'replay'],
];
const ONE: Role[][] = [['pack', 'submit', 'poll', 'replay']];
const FAR: Role[][] = [['pack', 'submit', 'poll'], ['replay']];
/** placements with a client, which takes the place of replay */
const ASKED: Role[][] = [['pack'], ['submit', 'poll']];
const ASKED_ONE: Role[][] = [['pack', 'submit', 'poll']];

const NONE = [] as const;
const STOP = ['stop'] as const;
const DEATH = ['death'] as const;
const BOTH = ['stop', 'death'] as const;
const FAULTS = [NONE, STOP, DEATH];

function inWords(setup: Setup): string {
  const faults = setup.faults?.length
    ? `with one ${setup.faults.join(' and one ')} at any moment`
    : 'without faults';
  const threads = setup.placement.map((hosted) => `[${hosted.join(' ')}]`).join(' ');
  return `depth ${setup.depth}, ${setup.ticks} ticks, ${threads}, ${faults}`;
}

const { holds, caught, outcomeOf, explored } = proofsOf(protocol, inWords);

describe('ring protocol model', function () {
  this.timeout(60_000);

  describe('rules hold when every access to shared memory is a step', () => {
    for (const placement of [THREE, TWO, ONE]) {
      for (const faults of FAULTS) holds({ depth: 1, ticks: 2, placement, faults });
    }
    holds({ depth: 1, ticks: 1, placement: FOUR }, itLong);
    holds({ depth: 2, ticks: 3, placement: THREE });
    holds({ depth: 2, ticks: 3, placement: TWO, faults: DEATH }, itLong);
    for (const faults of FAULTS) holds({ depth: 3, ticks: 4, placement: ONE, faults });
  });

  describe('rules hold when every hand-over is a step', () => {
    for (const placement of [FOUR, THREE, TWO, ONE]) {
      for (const depth of [1, 2, 3] as const) {
        for (const faults of FAULTS)
          holds(
            { depth, ticks: depth + 1, placement, faults, grain: 'hand-over' },
            depth === 3 && placement === FOUR && faults !== NONE ? itAll : it,
          );
      }
    }
    for (const placement of [THREE, TWO, ONE]) {
      holds({ depth: 2, ticks: 3, placement, faults: BOTH, grain: 'hand-over' });
    }
  });

  it('reaches the same number of end states at either grain', () => {
    const setup = { depth: 2, ticks: 3, placement: ONE, faults: BOTH } as const;
    const fine = outcomeOf({ ...setup, grain: 'access' });
    const coarse = outcomeOf({ ...setup, grain: 'hand-over' });
    expect(coarse.violation ?? fine.violation).to.equal(undefined);
    expect(coarse.ends).to.equal(fine.ends);
    expect(coarse.states).to.be.below(fine.states);
  });

  describe('rules hold for a client that requests its ticks', () => {
    holds({ depth: 1, ticks: 2, placement: ASKED_ONE, client: true });
    for (const depth of [1, 2] as const) {
      for (const placement of [ASKED, ASKED_ONE]) {
        for (const faults of FAULTS) {
          holds({ depth, ticks: depth + 1, placement, faults, client: true, grain: 'hand-over' });
        }
      }
    }
  });

  describe('rules hold when a collector admits requests', () => {
    holds({ depth: 1, ticks: 2, placement: TWO, gated: true });
    holds({ depth: 2, ticks: 3, placement: THREE, gated: true, faults: STOP, grain: 'hand-over' });
    holds({ depth: 2, ticks: 3, placement: THREE, gated: true, faults: DEATH, grain: 'hand-over' });
  });

  describe('rules hold for a device that is polled in rounds and rings no bell', () => {
    for (const faults of FAULTS)
      holds({ depth: 1, ticks: 2, placement: THREE, completion: 'rounds', faults });
    holds({ depth: 2, ticks: 3, placement: FOUR, completion: 'rounds', grain: 'hand-over' });
  });

  describe('rules hold when the ring is stopped and the device never answers', () => {
    for (const faults of [STOP, BOTH]) {
      for (const placement of [THREE, TWO])
        holds({ depth: 1, ticks: 2, placement, completion: 'never', faults });
      holds({
        depth: 1,
        ticks: 2,
        placement: FOUR,
        completion: 'never',
        faults,
        grain: 'hand-over',
      });
    }
  });
});

describe('ring protocol model: mutations are caught', function () {
  this.timeout(60_000);

  after(() => console.log(`      ${explored()} of the ring protocol`));

  describe('waiting', () => {
    const shallow = { depth: 1, ticks: 2 } as const;
    caught('a thread reads its bell after it checks the slots', 'deadlock', {
      ...shallow,
      placement: TWO,
    });
    caught('a thread checks for a stop before it reads its bell', 'deadlock', {
      ...shallow,
      placement: TWO,
      faults: STOP,
    });
    caught('a thread parks in JavaScript while events are pending', 'deadlock', {
      ...shallow,
      placement: TWO,
    });
    caught('a ringer reads the flag before it increments the bell', 'deadlock', {
      ...shallow,
      placement: TWO,
    });
    caught('pack rings the bell before it stores the state', 'deadlock', {
      ...shallow,
      placement: THREE,
    });
    caught('the stopper rings the bells before it stores the stop word', 'deadlock', {
      ...shallow,
      placement: THREE,
      faults: STOP,
    });
    // Completing events also wake poll's thread, so there the lost wake only costs time. This
    // mutation deadlocks only if the device hangs.
    const hung = { ...shallow, completion: 'never', faults: STOP } as const;
    caught('a ringer wakes every sleeper with Atomics.notify', 'deadlock', {
      ...hung,
      placement: TWO,
    });
  });

  describe('one missing bell', () => {
    const apart = { depth: 1, ticks: 2, placement: FOUR, grain: 'hand-over' } as const;
    for (const [from, to] of [
      ['pack', 'submit'],
      ['submit', 'poll'],
      ['device', 'poll'],
      ['poll', 'replay'],
      ['replay', 'poll'],
      ['poll', 'pack'],
    ]) {
      caught(`no ring: ${from!} to ${to!}`, 'deadlock', apart);
    }
    for (const role of ['pack', 'submit', 'poll', 'replay']) {
      caught(`no ring: stopper to ${role}`, 'deadlock', { ...apart, faults: STOP });
    }
    caught('no ring: collector to pack', 'deadlock', { ...apart, gated: true });
    const asked = {
      depth: 1,
      ticks: 2,
      placement: ASKED,
      client: true,
      grain: 'hand-over',
    } as const;
    caught('no ring: client to pack', 'deadlock', asked);
    caught('no ring: client to poll', 'deadlock', asked);
    caught('no ring: poll to client', 'deadlock', asked);
    caught('no ring: stopper to client', 'deadlock', { ...asked, faults: STOP });
  });

  describe('handing slots on', () => {
    const shallow = { depth: 1, ticks: 2 } as const;
    caught('pack stores Packed before it writes the rows', 'Slot-1', {
      ...shallow,
      placement: ONE,
    });
    caught('submit stores Submitted before it records the event', 'Slot-2', {
      ...shallow,
      placement: TWO,
    });
    caught('submit records the event before it enqueues the copy', 'Slot-2', {
      ...shallow,
      placement: TWO,
    });
    caught('replay records `spent` before it launches the graph', 'Slot-5', {
      ...shallow,
      placement: TWO,
    });
    caught('poll stores Free before it writes the journal', 'Slot-2', {
      ...shallow,
      placement: TWO,
    });
    caught('poll stores Free before the device is done', 'Slot-5', { ...shallow, placement: TWO });
    // Two slots are Ready at once only if replay has its own thread.
    caught('replay launches the newest Ready slot first', 'Slot-3', {
      depth: 2,
      ticks: 3,
      placement: FAR,
    });
  });

  describe('restarts after a death', () => {
    const dying = { depth: 1, ticks: 2, faults: DEATH } as const;
    caught('a successor rings no bell when it starts', 'deadlock', { ...dying, placement: TWO });
    caught('a successor ignores the launch mark', 'Slot-8', { ...dying, placement: TWO });
    caught('a successor reads the mark before it drains the stream', 'Slot-8', {
      ...dying,
      placement: TWO,
    });
    const hung = { depth: 1, ticks: 2, faults: BOTH, completion: 'never' } as const;
    caught('a successor ignores a stop while it drains the stream', 'deadlock', {
      ...hung,
      placement: TWO,
    });
  });

  describe('client', () => {
    const asked = { depth: 1, ticks: 2, placement: ASKED_ONE, client: true } as const;
    caught('the client marks itself as waiting after its check', 'deadlock', asked);
    const dying = { ...asked, faults: DEATH, grain: 'hand-over' } as const;
    caught('the requester clears the header after it stores Requested', 'Slot-3', dying);
    caught('the requester clears the header before it stores Requested', 'deadlock', dying);
  });
});
