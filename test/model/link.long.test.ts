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
    proves('lost', ONE, 'acknowledged before the commit');
    proves('copies', ONE, 'acknowledged before it is trimmed');
    proves('deadlock', { ...ONE, faults: ['notice'] }, 'acknowledgement as a notice only');
    proves(
      'deadlock',
      { ...ONE, faults: ['reader'], quick: true },
      'acknowledgements not stored again',
    );
    proves(
      'livelock',
      { ...SMALL, hello: true, faults: ['flush'] },
      'duplicates not acknowledged again',
    );
  });

  describe('retransmission', () => {
    proves('copies', ONE, 'sent again by a timer', 'one beat is enough');
    proves('copies', { ...ONE, busy: true }, 'a look is over at once');
    for (const fault of ['flush stream', 'flush'] as const)
      proves('deadlock', { ...ONE, faults: [fault], busy: true }, 'only an end counts');
    proves('copies', { ...ONE, faults: ['flap'] }, 'everything sent again on every connection');
    proves(
      'deadlock',
      { ...ONE, faults: ['cut'], quick: true },
      'what has no reply not sent again',
    );
    proves('deadlock', { ...SMALL, hello: true, faults: ['flush'] }, 'nothing sent again on beats');
    // Other hosts send all the time, so no look finds an empty stream.
    for (const fault of ['flush stream', 'flush'] as const)
      proves('deadlock', { ...ONE, faults: [fault] }, 'a beat counted where nothing was found');
    const unknown = { ...SMALL, hello: true, faults: ['empty'] } as const;
    proves('deadlock', unknown, 'a beat counted where nothing was found');
    proves('deadlock', { ...ONE, faults: ['empty'], quick: true }, 'no nak for another server run');
    const gaps = { ...ONE, faults: ['full', 'thread'], times: 3, quick: true } as const;
    proves('deadlock', gaps, 'naks forgotten with the thread');
  });

  describe('watermarks', () => {
    proves('twice', { ...ONE, faults: ['thread'] }, 'mark stored behind the commit');
    proves('twice', { ...ONE, faults: ['notice', 'flush'] }, 'the mark of a silent host forgotten');
  });

  describe('stream reads', () => {
    proves('deadlock', { ...ONE, faults: ['empty'], quick: true }, 'read on behind the last id');
    proves('deadlock', { ...ONE, faults: ['clock'] }, 'read to the end behind an id');
    proves('deadlock', { ...ONE, faults: ['thread'], quick: true }, 'trimmed before the commit');
  });

  describe('epochs', () => {
    const next = { ...SMALL, hello: true, faults: ['learner'] } as const;
    proves('lost', next, 'acknowledgement of another epoch believed');
    proves('endless', next, 'no base');
    proves(
      'deadlock',
      { ...ONE, faults: ['learner'], quick: true },
      'nothing sent again to another epoch',
    );
    proves('twice', { ...next, window: 1, restored: true }, 'restored marks ignored');
    const back = { ...ONE, rows: 1, faults: ['learner', 'snapshot'], times: 2 } as const;
    proves('lost', back, 'an older epoch believed again');
  });
});
