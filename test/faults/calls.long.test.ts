/**
 * Every call that Hotslot's binaries make for memory, threads, files or of the kernel fails once,
 * the first one from each place, in parts of training runs. It is told by a typed error, or harms
 * nobody: then the result is the same. All is closed, nothing is left, and the next run is as the
 * one before. And kernels that lack a call altogether.
 */
import { expect } from 'chai';
import { modes, need } from '../drivers/software.ts';
import { itAll, itLong, setting } from '../rig/setting.ts';
import type { Tried } from './child.ts';
import { type Ended, Tries } from './tries.ts';

/** Of the places every so manyth, from one on that is the same for the same number of them. */
const STRIDE = setting({ short: 25, all: 25, long: 1 });
const share = <T>(all: readonly T[], stride = STRIDE): T[] =>
  all.filter((_, i) => i % stride === all.length % stride);

/** What no library can do anything about: the C library's own words of a thread. */
const FATAL = /cannot allocate memory for thread-local data/;

/** Why a try is not as it must be, in words. */
function wrong({ error, same, later, closing, left }: Tried): string[] {
  const found: string[] = [];
  if (error && !error.code.startsWith('ERR_HOTSLOT_'))
    found.push(`thrown without a code: ${error.message}`);
  if (error && error.message.length < 10) found.push(`told in no words: '${error.message}'`);
  if (later !== null) found.push(`the next run failed: ${later}`);
  else if (!same)
    found.push(error ? 'the next run had another result' : 'another result, without a word');
  if (closing.length > 0) found.push(`closing threw: ${closing.join('; ')}`);
  const more = Object.entries(left).map(([kind, count]) => `${count} more of ${kind}`);
  if (more.length > 0) found.push(more.join(', '));
  return found;
}

describe('parts of training with failing native calls', function () {
  this.timeout(setting({ short: 300_000, all: 600_000, long: 1_800_000 }));
  let tries: Tries;
  let known: ReturnType<Tries['record']> | undefined;
  const places = () => (known ??= tries.record());
  before(() => {
    tries = new Tries();
  });
  after(() => tries?.close());

  /** `most` of the places are met again. */
  function judge(
    { tried, ended }: { tried: Tried[]; ended: Ended[] },
    by = tries,
    most = 0.8,
  ): void {
    const bad = tried
      .filter(({ struck }) => struck)
      .map((each) => ({ pair: `${each.part}:${each.site}`, why: wrong(each) }))
      .filter(({ why }) => why.length > 0)
      .map(({ pair, why }) => `${by.named(pair)}: ${why.join('; ')}`);
    const dead = ended
      .filter(({ errors }) => !FATAL.test(errors))
      .map(
        ({ pair, how, errors }) =>
          `${by.named(pair)} ended with ${how}: ${errors.trim().slice(-600)}`,
      );
    expect([...bad, ...dead]).to.deep.equal([]);
    const struck = tried.filter((each) => each.struck);
    const told = struck.filter(({ error }) => error).length;
    console.log(
      `      ${struck.length} places: ${told} told, ${struck.length - told} harmless, ${ended.length} fatal`,
    );
    // Who comes by in what order decides whether some are met a second time.
    expect(struck.length + ended.length).to.be.at.least(
      Math.floor((tried.length + ended.length) * most),
    );
  }

  itAll('throw a Hotslot error or return the same result when one call fails', async () => {
    const some = share((await places()).again);
    expect(some.length).to.be.at.least(setting({ short: 0, all: 6, long: 120 }));
    judge(await tries.tried(some));
  });

  itAll(
    'with an open capture throw a Hotslot error or return the same result when one call fails',
    async () => {
      await places();
      judge(await tries.tried(tries.ofPart('leftOpen')));
    },
  );

  // What only a family of GPUs does lies beside what all devices do.
  for (const mode of [modes.cuda13, modes.hip, modes.ze])
    (mode === modes.cuda13 ? itAll : itLong)(
      `throw a Hotslot error or return the same result on ${mode.name} when one call fails`,
      async function () {
        need(this, mode);
        const there = new Tries(mode);
        try {
          const { again } = await there.record();
          const some = share(again, setting({ short: 1, all: 60, long: 1 }));
          expect(some.length).to.be.at.least(setting({ short: 1, all: 3, long: 150 }));
          judge(await there.tried(some), there);
        } finally {
          there.close();
        }
      },
    );

  itAll('return equal results in later runs after a call of only the first run fails', async () => {
    // Which thread is there first is another one in each process, and few are tried.
    judge(await tries.triedFirst(share((await places()).once)), tries, 0.4);
  });

  const forced: Readonly<Record<string, string[]>> = {
    futex: ['byRows', 'rowsInThreads'], // wakes and sleeps are then looks
    madvise: ['largeBatch', 'managed'], // pages stay small
    mbind: ['largeBatch', 'managed'],
    prctl: ['byRows', 'halo'], // sleeps are longer
    fopen: ['largeBatch', 'managed'], // files of the system are not there
  };
  const everyPart = Object.fromEntries(Object.keys(forced).map((kind) => [kind, []]));
  itAll(
    `return the same result when every call of a kind fails: ${Object.keys(forced).join(' ')}`,
    async () => {
      const all = await tries.forced(setting({ short: {}, all: forced, long: everyPart }));
      for (const kind of Object.keys(forced))
        expect(all.filter((each) => each.kind === kind).length, kind).to.be.at.least(2);
      expect(all.filter(({ same }) => !same)).to.deep.equal([]);
    },
  );
});
