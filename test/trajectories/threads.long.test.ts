/**
 * Tests writers at full speed and readers in real threads. A sample must not mix steps or return a
 * newer step for an older id, and no thread may wait for ever.
 */
import { expect } from 'chai';
import { TrajectoryBuffer } from '../../src/index.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import type { LaneWork, Told } from './lane-worker.ts';
import { fields, LANES } from './telling.ts';

describe('TrajectoryBuffer in several threads', function () {
  this.timeout(setting({ short: 120_000, all: 300_000, long: 3_600_000 }));

  const times = setting({ short: 1, all: 2, long: 300 });
  const cases: {
    perLane: number;
    words: number;
    rows: number;
    writers: number;
    roles: LaneWork['role'][];
  }[] = [
    { perLane: 8, words: 384, rows: 16, writers: 2, roles: ['uniform', 'windows', 'places'] },
    {
      perLane: 12,
      words: 128,
      rows: 64,
      writers: 1,
      roles: ['by priority', 'windows by priority'],
    },
    { perLane: 4096, words: 1, rows: 1, writers: 1, roles: ['clear', 'clear'] },
    { perLane: 40, words: 192, rows: 200, writers: 2, roles: ['windows', 'by priority'] },
  ];
  for (const { perLane, words, rows, writers, roles } of cases)
    (perLane === 4096 ? itLonger : itAll)(
      `keeps steps whole with ${writers} writers of ${words * 8} bytes, lanes of ${perLane}: ${roles.join(', ')}`,
      async () => {
        using buffer = TrajectoryBuffer.create({
          capacity: perLane * LANES,
          lanes: LANES,
          fields: fields(words),
        });
        const control = new SharedArrayBuffer(12);
        new Int32Array(control).set([0, roles.length, writers]);
        const start = (role: LaneWork['role'], firstLane = 0, lanes = 0) =>
          new TestThread<LaneWork>(new URL('./lane-worker.js', import.meta.url), {
            shared: buffer.share(),
            control,
            together: writers + roles.length,
            words,
            rows,
            role,
            firstLane,
            lanes,
            samples: Math.ceil((times * 6000) / rows),
          });
        const writing = Array.from({ length: writers }, (_, i) =>
          start('write', i, LANES / writers),
        );
        const reading = roles.map((role) => start(role));
        const told = await Promise.all(reading.map((thread) => thread.result<Told>()));
        const written = await Promise.all(writing.map((thread) => thread.result<number>()));
        expect(told.map(({ wrong }) => wrong)).to.deep.equal(roles.map(() => null));
        expect(Math.min(...written), 'steps of each writer').to.be.greaterThan(0);
        expect(buffer.ptr).to.equal(written.reduce((a, b) => a + b));
        if (process.env.HOTSLOT_TEST_SAY) console.log(told, written);
      },
    );
});
