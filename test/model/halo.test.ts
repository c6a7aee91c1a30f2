/** The halo exchange's protocol under every interleaving, and its rules broken one by one. */
import { expect } from 'chai';
import { explore, type Outcome, shortest } from './checker.ts';
import { type HaloMutation, type HaloSetup, haloProtocol } from './halo.ts';

const TWO = [[0, 1]] as const;
const TWICE = [
  [0, 1],
  [0, 1],
] as const;
const ALONE = [[0, 0]] as const;
/** the outer two know of each other through the one between them */
const CHAIN = [
  [0, 1],
  [1, 2],
] as const;
const CYCLE = [...CHAIN, [2, 0]] as const;
const ALL = ['close', 'failure', 'rest', 'death'] as const;

const outcomes = new Map<string, Outcome>();

/** Each setup is explored once, however many tests ask. */
function outcomeOf(setup: HaloSetup): Outcome {
  const key = JSON.stringify(Object.entries({ faults: [], grain: 'access', ...setup }).sort());
  const outcome = outcomes.get(key) ?? explore(haloProtocol(setup));
  outcomes.set(key, outcome);
  return outcome;
}

function holds(setup: HaloSetup): void {
  const faults = setup.faults?.length ? `with ${setup.faults.join(', ')} at any moment` : 'without faults';
  const who = setup.pairs.map((pair) => pair.join('–')).join(' ');
  it(`ranks ${who}, ${setup.exchanges} exchanges, ${faults}`, function () {
    const { states, ends, violation } = outcomeOf(setup);
    if (violation) {
      const trace = shortest(haloProtocol(setup)) ?? violation.trace;
      expect.fail(`${violation.rule}: ${violation.text}\n${trace.join('\n')}`);
    }
    expect(ends).to.be.greaterThan(0);
    this.test!.title += `: ${states} states`;
  });
}

/** The broken protocol must be caught, and the same setup unbroken must hold: the rule is what makes the difference. */
function caught(broken: HaloMutation, rule: string, more: Partial<HaloSetup> = {}): void {
  const setup = { pairs: TWO, exchanges: 3, ...more };
  it(`${broken} → ${rule}`, () => {
    const { violation } = outcomeOf({ ...setup, broken });
    expect(violation?.rule).to.equal(rule);
    expect(violation?.trace).to.not.be.empty;
    expect(outcomeOf(setup).violation).to.equal(undefined);
  });
}

describe('the halo exchange protocol', function () {
  this.timeout(60_000);

  describe('holds when every access to shared memory is a step', () => {
    for (const pairs of [TWO, TWICE, ALONE]) {
      holds({ pairs, exchanges: 3 });
      holds({ pairs, exchanges: 3, faults: ALL });
    }
    holds({ pairs: CHAIN, exchanges: 1, faults: ALL });
    holds({ pairs: CHAIN, exchanges: 2, faults: ['death'] });
  });

  describe('holds for arrays on devices', () => {
    holds({ pairs: TWO, exchanges: 3, device: true });
    holds({ pairs: TWO, exchanges: 3, faults: ALL, device: true });
  });

  describe('holds when every ring and every park is a step', () => {
    for (const faults of [[], ['close'], ['failure'], ['rest'], ['death']] as const)
      holds({ pairs: CYCLE, exchanges: 3, faults, grain: 'hand-over' });
    holds({ pairs: CHAIN, exchanges: 2, faults: ALL, grain: 'hand-over' });
  });
});

describe('the halo exchange protocol, broken on purpose, is caught', function () {
  this.timeout(60_000);

  after(() => {
    const states = [...outcomes.values()].reduce((sum, outcome) => sum + outcome.states, 0);
    console.log(`      ${states} states in ${outcomes.size} setups of the halo exchange protocol`);
  });

  describe('buffers', () => {
    caught('one half only', 'H2');
    caught('next exchange started before the last is waited for', 'H2');
    caught('never emptied', 'H2');
    caught('emptied after the next exchange is sent', 'H2');
    caught('filled before it is packed', 'H1');
    caught('sent before the device has packed', 'H1', { device: true });
    caught('unpacked on another stream', 'H1', { device: true });
  });

  describe('waiting', () => {
    // Who goes on rings again, and a lost wake costs time only: it takes a rank that does not.
    caught('rung before the word is stored', 'deadlock', { faults: ['rest'] });
    caught('reader not rung', 'deadlock');
    caught('bell read after the look', 'deadlock');
    caught('flag looked at before the count is added', 'deadlock', { faults: ['rest'] });
  });

  describe('leaving', () => {
    caught('state looked at after the word', 'H5');
    caught('closed before the last exchange is sent', 'H6');
    caught('rung before it leaves', 'deadlock', { faults: ['close'] });
    caught('nobody rung when it leaves', 'deadlock', { faults: ['close'] });
    caught('nobody rung when it leaves', 'deadlock', { faults: ['failure'] });
  });

  describe('failing', () => {
    // Neighbours look at each other's state as well: the failure itself is for those further away.
    const far = { pairs: CHAIN, exchanges: 1, faults: ['failure', 'rest'] } as const;
    caught('failure looked for before the bell is read', 'deadlock', far);
    caught('failure not looked for', 'deadlock', far);
    caught('failure looked for after the word', 'H5', { faults: ['failure'] });
    caught('failure looked at while it is written', 'H6', { faults: ['failure'] });
    const missing = { pairs: CHAIN, exchanges: 2, faults: ['close', 'rest'], grain: 'hand-over' } as const;
    caught('a rank that misses another tells nobody', 'deadlock', missing);
    caught('a lost rank not looked for', 'livelock', { faults: ['death'] });
    caught('no limit to a park', 'deadlock', { faults: ['death'] });
  });
});
