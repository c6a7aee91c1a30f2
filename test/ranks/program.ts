/**
 * One of several MPI processes. It plays a scene and prints the result as a line of JSON.
 * Arguments: the scene's name and its argument.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { HaloUpdater } from '../../src/entries/halo.ts';
import { LearnerGroup, type MpiProcess, openMpi } from '../../src/entries/ranks.ts';
import { closeAll } from '../pipeline/fixture.ts';
import { exchange, N, share } from './exchanging.ts';
import { learner, PARAMETERS } from './learners.ts';
import { told } from './told.ts';

const [scene = '', argument = ''] = process.argv.slice(2);
const scenes: Record<string, (mpi: MpiProcess) => Promise<unknown>> = {
  async exchange(mpi) {
    const shared = share(mpi);
    {
      using updater = new HaloUpdater(shared, mpi.rank);
      await exchange(updater, mpi.size, Number(argument));
    }
    const given = Float64Array.of(mpi.rank, 7);
    const gathering = mpi.allGather(given);
    // allGather() has copied the values, so this does not change the result.
    given.fill(-1);
    const all = await gathering;
    return { size: mpi.size, name: mpi.name, all: all.map((values) => [...values]) };
  },

  /** Two ranks per process, one of them in a worker, with two exchanges at the same time. */
  async threads(mpi) {
    const all = [share(mpi, { ranks: 2 * mpi.size }), share(mpi, { ranks: 2 * mpi.size })];
    const workers = all.map(
      (shared) =>
        new Worker(new URL('./program-worker.js', import.meta.url), {
          workerData: { shared, rank: 2 * mpi.rank + 1, exchanges: Number(argument) },
        }),
    );
    const ended = workers.map((worker) => once(worker, 'message'));
    await Promise.all(
      all.map(async (shared) => {
        using updater = new HaloUpdater(shared, 2 * mpi.rank);
        await exchange(updater, 2 * mpi.size, Number(argument));
      }),
    );
    return { worked: (await Promise.all(ended)).flat() };
  },

  /** One rank fails. All others get its reason. */
  async fail(mpi) {
    const shared = share(mpi);
    using updater = new HaloUpdater(shared, mpi.rank);
    await exchange(updater, mpi.size, 3);
    if (mpi.rank === Number(argument)) {
      updater.fail(new RangeError(`no wind at ${mpi.rank}`));
      return { failed: true };
    }
    return await told(() => exchange(updater, mpi.size, 3));
  },

  /** One rank closes after three exchanges. The others complete these three and no more. */
  async close(mpi) {
    using updater = new HaloUpdater(share(mpi), mpi.rank);
    await exchange(updater, mpi.size, 3);
    if (mpi.rank === Number(argument)) return { closed: true };
    return await told(() => exchange(updater, mpi.size, 1));
  },

  /** A rank's thread is terminated between two exchanges. */
  async lost(mpi) {
    const shared = share(mpi);
    if (mpi.rank === Number(argument)) {
      const workerData = { shared, rank: mpi.rank, exchanges: 3, stays: true };
      const worker = new Worker(new URL('./program-worker.js', import.meta.url), { workerData });
      await once(worker, 'message');
      await worker.terminate();
      return { ended: true };
    }
    using updater = new HaloUpdater(shared, mpi.rank);
    await exchange(updater, mpi.size, 3);
    return await told(() => exchange(updater, mpi.size, 1));
  },

  /** Process 1 uses other options, or closes instead. */
  async mismatch(mpi) {
    if (argument === 'end' && mpi.rank === 1) {
      const { message } = await told(() => mpi.close());
      return { message };
    }
    const other = mpi.rank === 1 && argument === 'options';
    using updater = new HaloUpdater(share(mpi, { extent: other ? N - 1 : N }), mpi.rank);
    return await told(() => exchange(updater, mpi.size, 1));
  },

  /** Calls that are not allowed. */
  async misuse(mpi) {
    const refused = [
      await told(() => share(mpi, { ranks: mpi.size + 1 })),
      await told(() => new HaloUpdater(share(mpi), (mpi.rank + 1) % mpi.size)),
      await told(() => openMpi()),
      await told(() => mpi.allGather([1] as never)),
    ];
    const updater = new HaloUpdater(share(mpi), mpi.rank);
    refused.push(await told(() => mpi.close()));
    await exchange(updater, mpi.size, 2);
    updater.close();
    await mpi.close();
    refused.push(await told(() => share(mpi)), await told(() => mpi.allGather(Float64Array.of(1))));
    return { refused, again: await told(() => openMpi()) };
  },

  /** Learners average and receive rank 0's values. Then rank 1 fails or leaves. */
  async group(mpi) {
    using group = await LearnerGroup.join({ mpi, parameters: 1000 });
    const values = new Float32Array(1000);
    for (let exchange = 1; exchange <= 20; exchange++) {
      for (const i of values.keys()) values[i] = Math.sin(i + exchange) * (mpi.rank + 1);
      await group.average(values);
    }
    const bits = createHash('sha256').update(new Uint8Array(values.buffer)).digest('hex');
    const first = await group.broadcast({
      x: { dtype: 'int32', shape: [2], data: Int32Array.of(mpi.rank, 7) },
    });
    const busy = await told(() => mpi.close());
    const came = { bits, second: values[1], first: [...first.x!.data], busy: busy.message };
    if (mpi.rank === 1) {
      if (argument === 'fail') group.fail(new RangeError('no sea'));
      return came;
    }
    return {
      ...came,
      ...(await told(() => group.average(values))),
      again: await told(() => group.average(values)),
    };
  },

  /**
   * Runs of pipelines end together: by ticks, by an abort, and by the signal of a rank that waits
   * for a process without a run. Returns how each run ended, and whether the parameters are equal.
   */
  async ends(mpi) {
    using group = await LearnerGroup.join({ mpi, parameters: PARAMETERS });
    const every = Number(argument);
    const all = await learner(group, every);
    const ended: unknown[] = [];
    const equal: boolean[] = [];
    const note = async (running: ReturnType<typeof all.made.run>) => {
      const { ticks, ended: how } = await running;
      ended.push(how);
      const values = await mpi.allGather(
        Float64Array.of(...(await all.parameters.toArray()), ticks),
      );
      equal.push(values.every((each) => each.every((value, i) => value === values[0]![i])));
    };
    await note(all.made.run({ ticks: mpi.rank === 1 ? 3 : 8 }));
    const abort = new AbortController();
    all.made.on('tick', ({ tickId }) => tickId >= 20 && mpi.rank === 0 && abort.abort());
    await note(all.made.run({ signal: abort.signal }));
    all.made.removeAllListeners();
    // The last process begins its run after the others have ended theirs by their signals.
    const last = mpi.rank === mpi.size - 1;
    if (last) await mpi.allGather(Float64Array.of(1));
    const own = new AbortController();
    const running = all.made.run({ ticks: 2 * every, signal: own.signal });
    if (!last) {
      while (!all.made.waitingFor().includes('learner group')) await new Promise(setImmediate);
      own.abort();
      await running;
      await mpi.allGather(Float64Array.of(1));
    }
    await note(running);
    await note(all.made.run({ ticks: every }));
    await closeAll();
    return { ended, equal };
  },

  /** Process 1 joins with another number of parameters. */
  async 'group-mismatch'(mpi) {
    using group = await LearnerGroup.join({ mpi, parameters: 10 + mpi.rank });
    return await told(() => group.average(new Float32Array(10)));
  },

  /** A process is killed. Its launcher ends the others. */
  async killed(mpi) {
    using updater = new HaloUpdater(share(mpi), mpi.rank);
    await exchange(updater, mpi.size, 5);
    if (mpi.rank === Number(argument)) process.kill(process.pid, 'SIGKILL');
    await exchange(updater, mpi.size, 1e6);
    return { gone: false };
  },
};

const opened = await told(() => openMpi());
if ('message' in opened) {
  console.log(JSON.stringify({ rank: -1, ...opened }));
} else {
  const mpi = opened.value as MpiProcess;
  const came = await told(() => scenes[scene]!(mpi));
  console.log(
    JSON.stringify({ rank: mpi.rank, ...('value' in came ? (came.value as object) : came) }),
  );
  const closing = await told(() => mpi.close());
  if ('message' in closing && scene !== 'mismatch')
    console.log(JSON.stringify({ rank: mpi.rank, closing }));
}
