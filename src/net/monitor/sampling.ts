/**
 * Samples the state of a run for the live page. It reads the state twice a second for the curves,
 * and more often while a page is open. It listens to neither ticks nor episodes.
 */

import type { Device } from '../../device/device.ts';
import type { Emitted } from '../../engine/pipeline/history.ts';
import type { SlotNow } from '../../engine/pipeline/inspect.ts';
import {
  type GateName,
  type PipelineState,
  PipelineWatch,
  type StageSeconds,
} from '../../engine/pipeline/watch.ts';
import type { RunningCollectors } from '../../run/collectors/pool-pause.ts';
import type { CollectorStatistics, WorkerStatistics } from '../../run/collectors/statistics.ts';
import { type WatchedCollectors, watchedCollectors } from '../../run/collectors/watched.ts';
import { Curve, type Point } from './curve.ts';
import type { MonitorParts, WatchedCheckpoint, WatchedSave } from './parts.ts';
import { type RemoteNow, remoteNow } from './remote-now.ts';
import { whoWaits } from './waiting-text.ts';

const SAMPLE_MS = 500;
/** Minimum milliseconds between two memory queries, because each query calls the driver. */
const MEMORY_MS = 2000;
/** Maximum number of checkpoints that are shown. */
const SAVES = 5;

/** A device's memory in bytes, or null after the device was closed. */
export interface DeviceMemory {
  name: string;
  memory: { total: number; free: number } | null;
}
export interface CheckpointsNow {
  folder: string;
  /** number of checkpoints since the monitor opened */
  count: number;
  errors: number;
  /** the latest checkpoints, newest first, with `at` in milliseconds since 1970 */
  saved: (WatchedSave & { at: number })[];
  error: string | null;
}

/** The current state. Speeds are per second, and null before they are known. */
export interface Now {
  /** seconds since the monitor opened */
  seconds: number;
  state: PipelineState;
  failure: string | null;
  waitingFor: string;
  /** `waitingFor` as one of a few names, null after the pipeline has ended */
  gate: GateName | null;
  whoWaits: string;
  finished: number;
  tick: number;
  version: number;
  updatesPerSecond: number | null;
  slots: SlotNow[];
  stages: Readonly<Record<string, StageSeconds>> | null;
  buffer: { size: number; capacity: number } | null;
  collectors:
    | (CollectorStatistics & {
        stepsPerSecond: number | null;
        failure: string | null;
        workers: WorkerStatistics[];
      })
    | null;
  /** set if the collectors are on other machines */
  remote: RemoteNow | null;
  devices: DeviceMemory[];
  checkpoint: CheckpointsNow | null;
  said: readonly Emitted[];
}

/** Points of a curve from index `from` on. If `from` is 0, they are the whole curve. */
export type CurvePart = { from: number; points: readonly Point[] };

export class Sampling {
  readonly watch: PipelineWatch;
  readonly curves = new Map<string, Curve>();
  #pool: RunningCollectors | null = null;
  readonly #devices: readonly Device[];
  #checkpoints: CheckpointsNow | null = null;
  #deafen = () => {};
  readonly #ends: (() => void)[] = [];
  readonly #begin = performance.now();
  #before: { at: number; finished: number; steps: number; episodes: number; waits: number };
  #updatesPerSecond: number | null = null;
  #stepsPerSecond: number | null = null;
  #heldBack = 0;
  #memory: { at: number; devices: DeviceMemory[] } = { at: Number.NEGATIVE_INFINITY, devices: [] };
  #over = false;

  constructor({ pipeline, devices, ...later }: MonitorParts) {
    this.watch = new PipelineWatch(pipeline);
    this.#devices = devices ?? [this.watch.device];
    this.#before = {
      at: performance.now(),
      finished: this.watch.check().finished,
      steps: 0,
      episodes: 0,
      waits: 0,
    };
    this.add(later);
    const timer = setInterval(() => this.sample(), SAMPLE_MS).unref();
    // Samples once more when the pipeline closes, so that the curves contain the last ticks.
    const last = () => {
      this.sample();
      this.#over = true;
    };
    pipeline.once('close', last);
    this.#ends.push(
      () => clearInterval(timer),
      () => pipeline.off('close', last),
    );
  }

  /**
   * Adds parts that were opened after the pipeline. They replace earlier parts of the same kind.
   */
  add({ collectors, checkpoint }: Pick<MonitorParts, 'collectors' | 'checkpoint'>): void {
    if (collectors) {
      this.#pool = collectors;
      const { steps, episodes, waits } = collectors.statistics();
      this.#before = { ...this.#before, steps, episodes, waits };
    }
    if (!checkpoint) return;
    this.#deafen();
    this.#checkpoints = this.#listen(checkpoint);
  }

  get seconds(): number {
    return (performance.now() - this.#begin) / 1000;
  }

  /** Adds a value to a curve. */
  put(tag: string, step: number, value: number): void {
    const curve = this.curves.get(tag) ?? new Curve();
    this.curves.set(tag, curve);
    curve.add(this.seconds, step, value);
  }

  /** Reads the state of the run, and adds a value to each curve. */
  sample(): void {
    if (this.#over) return;
    const now = performance.now();
    const { finished, tick, scalars } = this.watch.check();
    const before = this.#before;
    const seconds = Math.max(now - before.at, 1) / 1000;
    for (const name in scalars) this.put(`train/${name}`, tick, scalars[name] as number);
    this.#updatesPerSecond = (finished - before.finished) / seconds;
    // The speed includes manual ticks. A pipeline that never had a tick has no speed.
    if (tick >= 0) this.put('speed/updates_per_second', tick, this.#updatesPerSecond);
    let { steps, episodes, waits } = before;
    if (this.#pool) {
      const read = this.#pool.statistics();
      ({ steps, episodes, waits } = read);
      this.#stepsPerSecond = (steps - before.steps) / seconds;
      if (steps > 0) this.put('speed/steps_per_second', steps, this.#stepsPerSecond);
      if (episodes > before.episodes) this.put('episodes/return', steps, read.meanReturn);
    }
    this.#heldBack = waits - before.waits;
    this.#before = { at: now, finished, steps, episodes, waits };
  }

  now(): Now {
    const { watch } = this;
    const [stages, waitingFor] = [watch.stages(), watch.waitingFor];
    const remote = this.#watched()?.remote() ?? null;
    const waits = {
      stages,
      waitingFor,
      free: watch.free,
      heldBack: this.#heldBack,
      hosts: remote?.waitingFor ?? null,
    };
    return {
      seconds: this.seconds,
      state: watch.state,
      failure: watch.failure,
      waitingFor,
      gate: watch.gate,
      whoWaits: whoWaits(waits),
      finished: watch.finished,
      tick: watch.tick,
      version: watch.version,
      updatesPerSecond: this.#updatesPerSecond,
      slots: watch.slots(),
      stages,
      buffer: watch.buffer(),
      collectors: this.#collectors(),
      remote: remote && remoteNow(remote),
      devices: this.devices(),
      checkpoint: this.#checkpoints,
      said: watch.emitted,
    };
  }

  /**
   * Returns the points of each curve that are not in `sent` yet, and adds them to `sent`. Returns
   * all points of a curve that was thinned since, or that is missing in `sent`.
   */
  parts(sent: Map<string, { count: number; thinned: number }>): Record<string, CurvePart> {
    const parts: [string, CurvePart][] = [];
    for (const [tag, { points, thinned }] of this.curves) {
      const before = sent.get(tag);
      const from = before?.thinned === thinned ? before.count : 0;
      if (from < points.length) parts.push([tag, { from, points: points.slice(from) }]);
      sent.set(tag, { count: points.length, thinned });
    }
    return Object.fromEntries(parts);
  }

  devices(): DeviceMemory[] {
    const now = performance.now();
    if (now - this.#memory.at >= MEMORY_MS)
      this.#memory = {
        at: now,
        devices: this.#devices.map((device) => ({ name: device.name, memory: memoryOf(device) })),
      };
    return this.#memory.devices;
  }

  close(): void {
    this.#over = true;
    this.#deafen();
    for (const end of this.#ends) end();
  }

  #collectors(): Now['collectors'] {
    const pool = this.#pool;
    const watched = this.#watched();
    if (!pool || !watched) return null;
    const { steps, episodes, meanReturn, recent, waits, version } = pool.statistics();
    return {
      steps,
      episodes,
      meanReturn,
      recent,
      waits,
      version,
      stepsPerSecond: this.#stepsPerSecond,
      failure: watched.failure()?.message ?? null,
      workers: watched.workers(),
    };
  }
  #watched(): WatchedCollectors | undefined {
    return this.#pool ? watchedCollectors.get(this.#pool) : undefined;
  }

  #listen(checkpoint: WatchedCheckpoint): CheckpointsNow {
    const { folder } = checkpoint;
    const now: CheckpointsNow = { folder, count: 0, errors: 0, saved: [], error: null };
    const saved = ({ save, tick, bytes, seconds }: WatchedSave) => {
      now.count++;
      now.error = null;
      now.saved.unshift({ save, tick, bytes, seconds, at: Date.now() });
      now.saved.splice(SAVES);
    };
    const failed = (error: Error) => {
      now.errors++;
      now.error = error.message;
      // If the monitor's listener is the only one, nobody else reports the error.
      if (checkpoint.listenerCount?.('error') === 1)
        process.emitWarning(`a checkpoint failed: ${error.message}`, 'MonitorWarning');
    };
    checkpoint.on('saved', saved);
    checkpoint.on('error', failed);
    this.#deafen = () => {
      checkpoint.off('saved', saved);
      checkpoint.off('error', failed);
    };
    return now;
  }
}

/** Returns null if the device is closed. */
function memoryOf(device: Device): { total: number; free: number } | null {
  try {
    return device.memoryInfo();
  } catch {
    return null;
  }
}
