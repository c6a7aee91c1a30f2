/**
 * Checks the model of the link between a learner and its collector hosts (link.ts). The rules hold
 * in every interleaving with every fault. Each rule broken on purpose is caught.
 */
import { itAll, itLong } from '../rig/setting.ts';
import { type LinkFault, type LinkMutation, type LinkSetup, linkProtocol } from './link.ts';
import { proofsOf } from './proofs.ts';

function inWords({
  hosts,
  rows,
  window = 2,
  hello,
  faults,
  times = 1,
  restored,
  quick,
  busy,
}: LinkSetup): string {
  const begin = hello ? 'HELLO and ' : '';
  const what = faults?.length ? `${times} × ${faults.join(', ')} at any moment` : 'without faults';
  const others = `${restored ? ', a checkpoint' : ''}${quick ? ', without beats' : ''}${busy ? ', a stream without an end' : ''}`;
  return `${hosts > 1 ? `${hosts} hosts` : '1 host'}, ${begin}${rows} ${rows > 1 ? 'rows' : 'row'}, a window of ${window}, ${what}${others}`;
}

const { holds, caught, explored } = proofsOf(linkProtocol, inWords);

/** Faults that the link repairs at once, by replies, naks and epochs. */
const QUICK: LinkFault[] = [
  'cut',
  'late',
  'full',
  'notice',
  'reader',
  'thread',
  'empty',
  'snapshot',
  'learner',
  'lease',
];
/** Faults that the link repairs by beats, after two of them. */
const SLOW: LinkFault[] = ['flush stream', 'flush', 'clock'];

describe('collector host link model', function () {
  this.timeout(600_000);

  describe('rules hold without faults and with connection flaps', () => {
    for (const window of [1, 2, 3])
      holds({ hosts: 1, rows: 4, window, hello: true, faults: ['flap'] });
    holds({ hosts: 2, rows: 2 });
    holds({ hosts: 2, rows: 2, hello: true }, itAll);
  });

  describe('rules hold with one fault', () => {
    for (const fault of QUICK) holds({ hosts: 1, rows: 3, faults: [fault], quick: true });
    for (const fault of [...QUICK, ...SLOW])
      holds({ hosts: 1, rows: 2, hello: true, faults: [fault] });
    for (const fault of [...QUICK, ...SLOW]) holds({ hosts: 1, rows: 3, faults: [fault] }, itAll);
    holds({ hosts: 1, rows: 2, window: 1, hello: true, faults: ['learner'], restored: true });
    holds({ hosts: 1, rows: 3, faults: ['learner'], restored: true }, itAll);
  });

  describe('rules hold with two or three faults', () => {
    const twice = { hosts: 1, times: 2 } as const;
    holds({ ...twice, rows: 2, window: 1, faults: ['learner', 'zombie', 'late'] });
    holds({ ...twice, rows: 2, window: 1, faults: ['flush', 'cut', 'thread', 'reader'] });
    holds({ ...twice, rows: 2, faults: ['cut', 'full', 'late'] });
    holds({ ...twice, rows: 2, faults: ['cut', 'full', 'late', 'flap'] }, itAll);
    holds({ ...twice, rows: 2, faults: ['empty', 'thread', 'full'] }, itAll);
    holds({ ...twice, rows: 2, faults: ['empty', 'late', 'cut'] }, itAll);
    holds({ ...twice, rows: 2, faults: ['snapshot', 'late', 'thread'] }, itAll);
    holds({ ...twice, rows: 2, faults: ['clock', 'thread', 'empty'] }, itAll);
    holds({ ...twice, rows: 2, faults: ['learner', 'zombie'] }, itLong);
    holds({ ...twice, rows: 2, faults: ['learner', 'flush'] }, itLong);
    holds(
      { ...twice, rows: 2, window: 1, faults: ['learner', 'late', 'empty'], restored: true },
      itAll,
    );
    holds({ ...twice, rows: 2, window: 1, faults: ['learner', 'snapshot', 'zombie'] }, itAll);
    holds({ ...twice, rows: 1, times: 3, faults: ['empty', 'thread', 'flush', 'late'] }, itAll);
  });

  describe('rules hold when the stream has no end', () => {
    holds({ hosts: 1, rows: 2, hello: true, busy: true });
    for (const fault of SLOW)
      holds({ hosts: 1, rows: 2, hello: true, faults: [fault], busy: true });
    for (const fault of ['thread', 'reader', 'empty', 'snapshot'] as const)
      holds({ hosts: 1, rows: 2, hello: true, faults: [fault], busy: true }, itAll);
    for (const faults of [
      ['flush', 'thread'],
      ['clock', 'late'],
    ] as const)
      holds({ hosts: 1, rows: 1, hello: true, times: 2, faults, busy: true }, itAll);
  });

  describe('rules hold for two hosts', () => {
    for (const fault of ['cut', 'late', 'full', 'thread', 'flush'] as const)
      holds({ hosts: 2, rows: 1, faults: [fault] });
    for (const fault of ['empty', 'snapshot', 'learner'] as const)
      holds({ hosts: 2, rows: 1, faults: [fault] }, itAll);
    for (const fault of ['full', 'reader', 'thread', 'flush'] as const)
      holds({ hosts: 2, rows: 1, hello: true, faults: [fault] }, itAll);
  });
});

describe('collector host link model: mutations are caught', function () {
  this.timeout(60_000);

  after(() => console.log(`      ${explored()} of the link's protocol`));

  const ONE = { hosts: 1, rows: 3 } as const;
  const SMALL = { hosts: 1, rows: 2 } as const;
  const proves = (rule: string, setup: LinkSetup, ...broken: LinkMutation[]) => {
    for (const each of broken) caught(each, rule, setup);
  };

  describe('acknowledgements', () => {
    proves('lost', ONE, 'the ingest acknowledges a row before it commits the row');
    proves('copies', ONE, 'the ingest acknowledges messages before it trims them');
    proves(
      'deadlock',
      { ...ONE, faults: ['notice'] },
      'a host does not read stored acknowledgements',
    );
    proves(
      'deadlock',
      { ...ONE, faults: ['reader'], quick: true },
      'a reconnected ingest does not store acknowledgements again',
    );
    proves(
      'livelock',
      { ...SMALL, hello: true, faults: ['flush'] },
      'the ingest does not acknowledge duplicates again',
    );
  });

  describe('retransmission', () => {
    proves(
      'copies',
      ONE,
      'a host sends its messages again after a timeout',
      'a host sends its messages again after one beat',
    );
    proves(
      'copies',
      { ...ONE, busy: true },
      'the ingest ends a look before it decides all messages',
    );
    for (const fault of ['flush stream', 'flush'] as const)
      proves(
        'deadlock',
        { ...ONE, faults: [fault], busy: true },
        'the ingest counts a beat only at the end of the stream',
      );
    proves(
      'copies',
      { ...ONE, faults: ['flap'] },
      'a host sends every message again on each connection',
    );
    proves(
      'deadlock',
      { ...ONE, faults: ['cut'], quick: true },
      'a host does not send messages without a reply again',
    );
    proves(
      'deadlock',
      { ...SMALL, hello: true, faults: ['flush'] },
      'a host sends no message again after beats',
    );
    // Other hosts send all the time, so no look finds an empty stream.
    for (const fault of ['flush stream', 'flush'] as const)
      proves(
        'deadlock',
        { ...ONE, faults: [fault] },
        'the ingest counts a beat only if it found no messages',
      );
    const unknown = { ...SMALL, hello: true, faults: ['empty'] } as const;
    proves('deadlock', unknown, 'the ingest counts a beat only if it found no messages');
    proves(
      'deadlock',
      { ...ONE, faults: ['empty'], quick: true },
      'the ingest raises no nak for another server run',
    );
    const gaps = { ...ONE, faults: ['full', 'thread'], times: 3, quick: true } as const;
    proves('deadlock', gaps, 'the ingest loses its naks when its thread dies');
  });

  describe('watermarks', () => {
    proves('twice', { ...ONE, faults: ['thread'] }, 'the ingest stores the mark after the commit');
    proves(
      'twice',
      { ...ONE, faults: ['notice', 'flush'] },
      'the ingest forgets the mark of a silent host',
    );
  });

  describe('stream reads', () => {
    proves(
      'deadlock',
      { ...ONE, faults: ['empty'], quick: true },
      'a reconnected ingest continues after its last id',
    );
    proves(
      'deadlock',
      { ...ONE, faults: ['clock'] },
      'the ingest does not return to id 0-0 at the end of the stream',
    );
    proves(
      'deadlock',
      { ...ONE, faults: ['thread'], quick: true },
      'the ingest trims a message before it commits the row',
    );
  });

  describe('epochs', () => {
    const next = { ...SMALL, hello: true, faults: ['learner'] } as const;
    proves('lost', next, 'a host accepts an acknowledgement of another epoch');
    proves('endless', next, 'a host sends its messages without a base');
    proves(
      'deadlock',
      { ...ONE, faults: ['learner'], quick: true },
      'a host sends no message again to another epoch',
    );
    proves(
      'twice',
      { ...next, window: 1, restored: true },
      'a new learner ignores the marks of its checkpoint',
    );
    const back = { ...ONE, rows: 1, faults: ['learner', 'snapshot'], times: 2 } as const;
    proves('lost', back, 'a host accepts an older epoch again');
  });
});
