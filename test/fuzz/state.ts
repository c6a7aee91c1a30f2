/**
 * What must be the same behind a refusal: counts, marks, words in shared memory, and what is open.
 */
import type * as graph from '../../src/entries/graph.ts';
import type * as halo from '../../src/entries/halo.ts';
import type * as memory from '../../src/entries/memory.ts';
import type * as ranks from '../../src/entries/ranks.ts';
import type * as hotslot from '../../src/index.ts';
import { openHandles } from '../rig/handles.ts';
import type { Things } from './world.ts';

/** A sum of memory's words. */
function sumOf(memory: ArrayBufferLike, from = 0): number {
  let sum = 7;
  for (const word of new Int32Array(memory, from, (memory.byteLength - from) >> 2))
    sum = (Math.imul(sum, 31) + word) | 0;
  return sum;
}

/** What a getter tells, or that it refuses. */
function told(look: () => unknown): unknown {
  try {
    return look();
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
}

type Looks = Readonly<Record<string, () => unknown>>;

/** Looks that can be made again and again: they change nothing themselves. */
export function looksAt(things: Things): Looks {
  const of = <T>(name: string) => things[name] as T;
  const looks: Record<string, () => unknown> = {};
  for (const [name, thing] of Object.entries(things))
    if ('closed' in thing)
      looks[`w.${name}.closed`] = () => told(() => (thing as { closed: unknown }).closed);
  for (const name of ['buffer', 'filled', 'limited', 'closedBuffer', 'trajectories']) {
    const each = of<hotslot.ReplayBuffer>(name);
    looks[`w.${name}`] = () => told(() => [each.ptr, each.size]);
  }
  for (const name of ['limiter', 'gated']) {
    const each = of<hotslot.RateLimiter>(name);
    looks[`w.${name}`] = () => [each.inserts, each.samples];
  }
  for (const name of ['shared', 'sharedSteps', 'sharedMailbox', 'sharedLimiter']) {
    const { memory, offset } = of<{ memory: SharedArrayBuffer; offset?: number }>(name);
    looks[`the memory of w.${name}`] = () => sumOf(memory, offset);
  }
  const mailbox = of<hotslot.WeightMailbox>('mailbox');
  looks['w.mailbox'] = () => [mailbox.published, mailbox.begun];
  for (const name of ['pipeline', 'stepped', 'closedPipeline']) {
    const each = of<hotslot.ReplayPipeline>(name);
    looks[`w.${name}`] = () =>
      told(() => {
        const { slots, waitingFor, finished } = each.inspect();
        return [slots, waitingFor, finished];
      });
  }
  const view = of<hotslot.View>('transitions');
  const trajectories = of<hotslot.TrajectoryBuffer>('trajectories');
  looks['drawable steps'] = () => told(() => trajectories.drawable(view));
  looks['w.sampler'] = () => told(() => of<hotslot.PrioritizedSampler>('sampler').inspect());
  looks['w.random'] = () => of<hotslot.Random>('random').state();
  looks['w.policy'] = () => sumOf(of<{ parameters: Float32Array }>('policy').parameters.buffer);
  looks['w.wrapper'] = () => ({ ...of<graph.FullGraphWrapper>('wrapper').currIteration });
  looks['w.loader'] = () =>
    Object.entries(of<graph.StaticBufferLoader>('loader').staticBuffers).map(([stage, each]) => [
      stage,
      each.map((one) => Object.keys(one)),
    ]);
  looks['w.updater'] = () => told(() => of<halo.HaloUpdater>('updater').exchange);
  looks['w.group'] = () => told(() => of<ranks.LearnerGroup>('group').exchanges);
  looks['w.cpuTensor'] = () => sumOf(of<hotslot.CpuTensor>('cpuTensor').data.buffer);
  if (things.mempool)
    looks['w.mempool'] = () => told(() => of<memory.UnifiedMempool>('mempool').stats());
  for (const name of ['stream', 'stream2', 'hostStream']) {
    const each = of<hotslot.Stream>(name);
    looks[`w.${name}.capturing`] = () => told(() => each.capturing);
  }
  for (const name of ['device', 'host']) {
    const each = of<hotslot.Device>(name);
    looks[`w.${name}.currentStream`] = () => told(() => each.currentStream.handle);
  }
  return looks;
}

export class State {
  readonly #looks: Looks;
  #seen: Readonly<Record<string, string>> = {};
  #open: Readonly<Record<string, number>> = {};

  constructor(things: Things) {
    this.#looks = looksAt(things);
  }

  /** Looks, and keeps what it sees. */
  keep(): void {
    this.#seen = this.#look();
    this.#open = openHandles();
  }

  /** What is another than when it was kept, in words; handles count where there are more. */
  differs(): string | null {
    const now = this.#look();
    for (const [name, seen] of Object.entries(this.#seen))
      if (now[name] !== seen) return `${name} was ${seen} and is ${now[name]}`;
    for (const [kind, count] of Object.entries(openHandles()))
      if (count > (this.#open[kind] ?? 0))
        return `${kind}: ${this.#open[kind]} were open and ${count} are`;
    return null;
  }

  #look(): Record<string, string> {
    const look: Record<string, string> = {};
    for (const name in this.#looks)
      look[name] = String(JSON.stringify((this.#looks[name] as () => unknown)())).slice(0, 400);
    return look;
  }
}
