/**
 * Loaded by every run. If a test or a hook times out, its error lists the open pipelines, learner
 * groups and collector pools of this process. It also says what each of them waits for. They are
 * found in the heap at that moment, so other tests cost nothing more.
 */
import { Session } from 'node:inspector';
import { createRequire } from 'node:module';
import { inspect } from 'node:util';
import Mocha from 'mocha';

const require = createRequire(import.meta.url);

/** A reference to an object, as the inspector returns it. */
type Remote = { readonly objectId: string };

const FOUND = 'hotslot reachable';

/** Returns the reachable objects of this thread. */
function reachable(): object[] {
  const session = new Session();
  session.connect();
  // If a session inspects its own thread, it calls back before post() returns.
  const post = (method: string, given: object): unknown => {
    let answer: unknown;
    session.post(method, given, (error, result) => {
      if (error) throw error;
      answer = result;
    });
    return answer;
  };
  const place = globalThis as { [FOUND]?: object[] };
  try {
    const { result } = post('Runtime.evaluate', { expression: 'Object.prototype' }) as {
      result: Remote;
    };
    const found = post('Runtime.queryObjects', { prototypeObjectId: result.objectId }) as {
      objects: Remote;
    };
    // The inspector can pass objects to the program only through properties of the global object.
    const functionDeclaration = `function () { globalThis['${FOUND}'] = this }`;
    post('Runtime.callFunctionOn', { objectId: found.objects.objectId, functionDeclaration });
    return place[FOUND] ?? [];
  } finally {
    delete place[FOUND];
    session.disconnect();
  }
}

/** Returns the objects whose class is `made`, without proxies and subclasses. */
const instances = <T extends object>(
  all: readonly object[],
  made: { readonly prototype: T },
): T[] => all.filter((each): each is T => Object.getPrototypeOf(each) === made.prototype);

const nameOf = (names: Readonly<Record<string, number>>, value: number) =>
  Object.keys(names).find((name) => names[name] === value) ?? value;

function pipelines(all: readonly object[]): object[] {
  const { ReplayPipeline, internalsOf } =
    require('../../src/engine/pipeline/replay-pipeline.js') as typeof import('../../src/engine/pipeline/replay-pipeline.ts');
  const { Gate, Mode, ThreadState } =
    require('../../src/engine/ring/header.js') as typeof import('../../src/engine/ring/header.ts');
  return instances(all, ReplayPipeline)
    .filter((pipeline) => !internalsOf(pipeline).parts.slots.closed)
    .map((pipeline) => {
      const { options, parts, control } = internalsOf(pipeline);
      const { header, failure } = parts.ring;
      return {
        ReplayPipeline: pipeline.inspect(),
        mode: nameOf(Mode, header.mode),
        gate: nameOf(Gate, header.gate),
        stopping: header.stopping,
        pauseAcknowledged: header.paused,
        run: control.state,
        failure: failure.read()?.message ?? null,
        threads: options.placement.threads.map((roles, i) => [
          nameOf(ThreadState, header.threadState(i)),
          roles.join(' '),
        ]),
      };
    });
}

function groups(all: readonly object[]): object[] {
  const { LearnerGroup, sharedOf } =
    require('../../src/engine/group/group.js') as typeof import('../../src/engine/group/group.ts');
  const { groupControlWords } =
    require('../../src/engine/group/group-shared.js') as typeof import('../../src/engine/group/group-shared.ts');
  const { RankState } =
    require('../../src/shm/exchange-control.js') as typeof import('../../src/shm/exchange-control.ts');
  return instances(all, LearnerGroup)
    .filter((group) => groupControlWords(sharedOf(group)).state(group.rank) === RankState.open)
    .map((group) => ({
      LearnerGroup: `rank ${group.rank} of ${group.size}`,
      exchanges: group.exchanges,
      waitingFor: group.waitingFor(),
    }));
}

function pools(all: readonly object[]): object[] {
  const { CollectorPool, threadsOf } =
    require('../../src/run/collectors/collector-pool.js') as typeof import('../../src/run/collectors/collector-pool.ts');
  return instances(all, CollectorPool)
    .filter((pool) => threadsOf(pool).length > 0)
    .map((pool) => ({ CollectorPool: pool.statistics(), threads: threadsOf(pool).length }));
}

function openNow(): string {
  const lines: string[] = [];
  try {
    const all = reachable();
    for (const find of [pipelines, groups, pools])
      lines.push(...find(all).map((state) => inspect(state, { depth: 4, breakLength: 120 })));
  } catch (error) {
    lines.push(`the list ends here: ${(error as Error).stack}`);
  }
  return `open when it timed out:\n${lines.join('\n') || 'no pipeline, learner group or collector pool'}`;
}

// Runs before any hook of the test closes what the test left open. A hook that times out fails
// here, too.
const runner = Mocha.Runner.prototype as unknown as {
  fail(test: Mocha.Runnable, error: unknown, ...more: unknown[]): void;
};
const { fail } = runner;
runner.fail = function (test, error, ...more) {
  if (error instanceof Error && (error as { code?: string }).code === 'ERR_MOCHA_TIMEOUT') {
    const { message, stack = '' } = error;
    error.message = `${message}\n${openNow()}`;
    error.stack = stack.replace(message, () => error.message);
  }
  fail.call(this, test, error, ...more);
};
