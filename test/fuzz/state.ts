/**
 * What a refused call must leave unchanged: counts, marks, words in shared memory, open handles.
 */
import type * as graph from '../../src/entries/graph.ts';
import type * as halo from '../../src/entries/halo.ts';
import type * as memory from '../../src/entries/memory.ts';
import type * as ranks from '../../src/entries/ranks.ts';
import type * as hotslot from '../../src/index.ts';
import { openHandles } from '../rig/handles.ts';
import type { Things } from './world.ts';

/** Returns a checksum of the memory's 32-bit words. */
function sumOf(memory: ArrayBufferLike, from = 0): number {
  let sum = 7;
  for (const word of new Int32Array(memory, from, (memory.byteLength - from) >> 2))
    sum = (Math.imul(sum, 31) + word) | 0;
  return sum;
}

/** Returns what a getter returns, or the code of the error that it throws. */
function told(look: () => unknown): unknown {
  try {
    return look();
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
}

type Looks = Readonly<Record<string, () => unknown>>;

/** Returns functions that read the state of these objects and change nothing. */
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

  /** Reads the state and keeps it. */
  keep(): void {
    this.#seen = this.#look();
    this.#open = openHandles();
  }

  /**
   * Returns what differs from the kept state, or null. Handles count only if there are more of
   * them.
   */
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
