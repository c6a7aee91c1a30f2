/** The parts that a live page shows, and their checks. */
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { Device } from '../../device/device.ts';
import { ReplayPipeline } from '../../engine/pipeline/replay-pipeline.ts';
import type { RunningCollectors } from '../../run/collectors/pool-pause.ts';
import { watchedCollectors } from '../../run/collectors/watched.ts';

/** A checkpoint that was written. */
export interface WatchedSave {
  /** number of saves, including this one */
  save: number;
  /** id of the last tick in the checkpoint */
  tick: number;
  bytes: number;
  seconds: number;
}

/** An event emitter that reports checkpoints. */
export interface WatchedCheckpoint {
  /** folder in which the checkpoints are written */
  readonly folder: string;
  on(event: 'saved', listener: (saved: WatchedSave) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'saved', listener: (saved: WatchedSave) => void): unknown;
  off(event: 'error', listener: (error: Error) => void): unknown;
  /**
   * if this method shows that only the monitor listens for errors, the monitor emits a process
   * warning for each error
   */
  listenerCount?(event: 'error'): number;
}

export interface MonitorParts {
  pipeline: ReplayPipeline;
  /** a CollectorPool or RemoteCollectors, whose steps and returns are shown */
  collectors?: RunningCollectors;
  /** devices whose memory is shown, default: the pipeline's device */
  devices?: readonly Device[];
  checkpoint?: WatchedCheckpoint;
  /** the page's title, default 'Hotslot' */
  title?: string;
}

export interface MonitorOptions {
  /** port to listen on, default 0, which is any free one */
  port?: number;
  /** address to listen on, or a name of it, default '127.0.0.1', which only this machine reaches */
  host?: string;
}

/** Throws if these parts cannot be shown. */
export function checkParts(parts: MonitorParts): void {
  checkKeys('serveMonitor', parts, ['pipeline', 'collectors', 'devices', 'checkpoint', 'title']);
  const { pipeline, devices, title } = parts;
  if (!(pipeline instanceof ReplayPipeline))
    throw typeError(
      `serveMonitor: pipeline must be a ReplayPipeline, got ${describeValue(pipeline)}`,
    );
  if (devices !== undefined) {
    if (!Array.isArray(devices))
      throw typeError(`serveMonitor: devices must be an array, got ${describeValue(devices)}`);
    for (const each of devices as readonly Device[])
      if (typeof each?.memoryInfo !== 'function')
        throw typeError(`serveMonitor: devices are of openDevice(), got ${describeValue(each)}`);
  }
  checkLater('serveMonitor', parts);
  if (title !== undefined && typeof title !== 'string')
    throw typeError(`serveMonitor: title must be a string, got ${describeValue(title)}`);
}

/** Checks the parts that may be added later. */
export function checkLater(
  what: string,
  { collectors, checkpoint }: Omit<MonitorParts, 'pipeline'>,
): void {
  if (collectors !== undefined && !watchedCollectors.has(collectors))
    throw typeError(
      `${what}: collectors must be a CollectorPool or RemoteCollectors, got ${describeValue(collectors)}`,
    );
  if (checkpoint === undefined) return;
  const { on, off, folder } = (checkpoint ?? {}) as Partial<WatchedCheckpoint>;
  if (typeof on !== 'function' || typeof off !== 'function' || typeof folder !== 'string')
    throw typeError(
      `${what}: checkpoint must have on(), off() and a folder, got ${describeValue(checkpoint)}`,
    );
}

export function checkedOptions(options: MonitorOptions): Required<MonitorOptions> {
  checkKeys('serveMonitor', options, ['port', 'host']);
  const { port = 0, host = '127.0.0.1' } = options;
  checkCount('port', port, 0, 65_535);
  if (typeof host !== 'string')
    throw typeError(`serveMonitor: host must be a string, got ${describeValue(host)}`);
  if (!/^[\w.:-]+$/.test(host))
    throw rangeError(
      `serveMonitor: host must be an address or a name, such as '127.0.0.1', got ${describeValue(host)}`,
    );
  return { port, host };
}
