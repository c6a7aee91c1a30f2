/**
 * Loaded by every run: when a test or a hook times out, its error lists the pipelines, learner
 * groups and collector pools of this process that are not closed, and what each waits for. They are
 * found in the heap at that moment: other tests pay nothing.
 */
import { Session } from 'node:inspector';
import { createRequire } from 'node:module';
import { inspect } from 'node:util';
import Mocha from 'mocha';

const require = createRequire(import.meta.url);

/** An object, as the inspector names it. */
type Remote = { readonly objectId: string };

const FOUND = 'hotslot reachable';

/** The objects of this thread that are reachable. */
function reachable(): object[] {
  const session = new Session();
  session.connect();
  // In its own thread a session calls back before post() returns.
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
    // The inspector hands objects over by properties of the global object only.
    const functionDeclaration = `function () { globalThis['${FOUND}'] = this }`;
    post('Runtime.callFunctionOn', { objectId: found.objects.objectId, functionDeclaration });
    return place[FOUND] ?? [];
  } finally {
    delete place[FOUND];
    session.disconnect();
  }
}

/** Those that `made` made itself: no proxies of them, and nothing that inherits from them. */
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

// Before any hook of the test closes what it left open; a hook that times out fails here too.
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
