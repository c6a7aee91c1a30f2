/**
 * Tests parts of training runs in which one native call fails: for memory, threads, files or of the
 * kernel. Of the calls from one place the first one fails. The part must throw a typed error or
 * return the same result. Afterwards all is closed and released, and the next run gives the same
 * result. Further tests make every call of one kind fail, as on a kernel that lacks the call.
 */
import { expect } from 'chai';
import { modes, need } from '../drivers/software.ts';
import { itAll, itLong, setting } from '../rig/setting.ts';
import type { Tried } from './child.ts';
import { type Ended, Tries } from './tries.ts';

/**
 * Only every STRIDE-th place is tried, from an offset that depends only on the number of places.
 */
const STRIDE = setting({ short: 25, all: 25, long: 1 });
const share = <T>(all: readonly T[], stride = STRIDE): T[] =>
  all.filter((_, i) => i % stride === all.length % stride);

/** An error that no library can handle: the C library cannot allocate a thread's local data. */
const FATAL = /cannot allocate memory for thread-local data/;

/** Returns what is wrong with a try, as texts. */
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

  /** Checks the tries. At least the share `most` of them must have reached their place again. */
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
    // The order of the threads decides whether some places are reached a second time.
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

  // Calls that only one family of GPUs makes come in addition to those of all devices.
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
    // Which thread is first at a place differs between processes, and few places are tried. So the
    // share is small.
    judge(await tries.triedFirst(share((await places()).once)), tries, 0.4);
  });

  const forced: Readonly<Record<string, string[]>> = {
    futex: ['byRows', 'rowsInThreads'], // wakes and sleeps become polling
    madvise: ['largeBatch', 'managed'], // pages stay small
    mbind: ['largeBatch', 'managed'],
    prctl: ['byRows', 'halo'], // sleeps last longer
    fopen: ['largeBatch', 'managed'], // system files cannot be read
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
