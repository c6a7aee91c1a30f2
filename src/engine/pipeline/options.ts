/** Options of ReplayPipeline.open(): their types, checks and defaults. */

import { checkCount, checkKeys, checkPath, describeValue } from '../../base/checks.ts';
import { coresNow } from '../../base/cores.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { checkTransfer } from '../../device/transfer/build.ts';
import type { TransferChoice } from '../../device/transfer/native.ts';
import { checkSignal } from '../../shm/wait.ts';
import type { StepFields } from '../../store/lanes/schema.ts';
import { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import type { PrioritizedSampler } from '../../store/prioritized.ts';
import type { Fields } from '../../store/rows/fields.ts';
import { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { View } from '../../store/views/views.ts';
import { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import {
  type CheckedRing,
  checkRing,
  checkRows,
  checkSteps,
  checkStepsOptions,
  type DeviceRingOptions,
  RING_OPTIONS,
  type RowsKept,
} from '../device-rows/options.ts';
import { LearnerGroup } from '../group/group.ts';
import { CLIENT } from '../ring/role-bells.ts';
import { MAX_SLOTS } from '../ring/run-fields.ts';
import { type Role, roles } from '../ring/slot.ts';
import { BatchSource } from './source.ts';

/**
 * The threads of the roles: 'auto' chooses them by the number of cores, 'inline' lets the caller
 * step() the roles, an array lists the roles of each thread.
 */
export type Placement = 'auto' | 'inline' | readonly (readonly Role[])[];

export interface TraceOptions {
  /** Chrome/Perfetto trace file, written when the pipeline closes */
  file: string;
  /**
   * whether the trace also contains spans of copies and updates on the device, if the device has
   * timing events (default true)
   */
  deviceEvents?: boolean;
}

export interface PipelineOptions<F extends Fields = Fields> extends CommonOptions {
  buffer: ReplayBuffer<F, object>;
}

/** Options for trajectories. `S` are the buffer's fields, and `V` is the view. */
export interface TrajectoryPipelineOptions<S extends StepFields = StepFields, V extends View = View>
  extends CommonOptions {
  buffer: TrajectoryBuffer<S>;
  /** view that defines a batch's rows */
  view: V;
  /** sampler of the steps (default: uniform draws) */
  sampler?: PrioritizedSampler;
  /** exponent of the importance weights, 0 to 1, until setBeta() (default 0.4) */
  beta?: number;
}

interface CommonOptions {
  /** 'auto', 'cpu', 'host:0', … */
  device: string;
  /** rows of one tick's batch */
  sampleCount: number;
  /** slots in the ring, 2 to 64 (default 4) */
  depth?: number;
  /** seed of a tick = baseSeed + tickId (default 0) */
  baseSeed?: number;
  placement?: Placement;
  /**
   * number of times that a lost or failed actor thread is replaced before the pipeline fails
   * (default 0)
   */
  restart?: number;
  trace?: false | TraceOptions;
  /** mailbox to which the learner's weights are published for collectors (default: none) */
  mailbox?: WeightMailbox;
  /**
   * how a batch reaches a slot's buffer on the CPU device (default 'auto'). With 'auto', pack
   * writes the batch directly to the buffer ('direct'), because a copy within the same memory would
   * move each byte twice. If rows live on the device, 'auto' copies. On GPUs, batches are always
   * copied.
   */
  transfer?: TransferChoice;
  /**
   * where the rows live (default 'host'). `'host'`: each batch is packed and copied. `'device'`:
   * each row is copied once, and the captured graph gathers. For a ReplayBuffer the graph also
   * draws (docs/reference/pipeline.md#rows-on-the-device). `'auto'`: as 'device' on GPUs that have
   * room.
   */
  rows?: RowsKept;
  /** options for rows on the device */
  deviceRing?: DeviceRingOptions;
  /**
   * learners whose parameters are averaged with this one's: see capture()'s `sync` and
   * docs/extras/ranks.md
   */
  group?: LearnerGroup;
  /** finished ticks that the journal stores, a power of two (default 8192) */
  journal?: number;
  /** aborts opening: open() closes what it opened, and rejects with the signal's reason */
  signal?: AbortSignal;
}

interface RolePlacement {
  /** roles of each thread in runs, empty for 'inline' */
  threads: readonly (readonly Role[])[];
  /** roles of the same threads in manual ticks. A thread may have none */
  manual: readonly (readonly Role[])[];
  name: string;
  reason: string;
}

/**
 * Returns the threads of the roles. Throws unless every role has exactly one thread. With 'auto',
 * the threads of a `grouped` pipeline keep their roles in manual ticks, because MPI knows the
 * thread of its poll actor.
 */
export function placementOf(
  placement: Placement = 'auto',
  { grouped = false } = {},
): RolePlacement {
  if (placement === 'inline') {
    return {
      threads: [],
      manual: [],
      name: 'inline',
      reason: 'the caller steps every role in its own thread',
    };
  }
  if (placement === 'auto') return automatic(coresNow().cores, grouped);
  if (!Array.isArray(placement))
    throw typeError(
      `placement must be 'auto', 'inline' or an array of role arrays, got ${describeValue(placement)}`,
    );
  for (const hosted of placement) {
    if (!Array.isArray(hosted))
      throw typeError(
        `placement is an array of role arrays, e.g. [['pack'], ['submit', 'poll', 'replay']]; got ${describeValue(hosted)} in it`,
      );
  }
  const named = placement.flat();
  for (const role of named)
    if (!roles.includes(role))
      throw typeError(
        `placement names an unknown role ${describeValue(role)}; roles: ${roles.join(', ')}`,
      );
  for (const role of roles) {
    const times = named.filter((other) => other === role).length;
    if (times !== 1)
      throw rangeError(`placement must name role '${role}' once, it names it ${times} times`);
  }
  const threads = placement.filter((hosted) => hosted.length > 0);
  return { threads, manual: threads, name: print(threads), reason: 'as asked' };
}

/**
 * Chooses the threads for 'auto'. Manual ticks have all roles on one thread: a single tick gains
 * nothing from a second thread, and waking that thread takes time.
 */
function automatic(cores: number, grouped: boolean): RolePlacement {
  if (cores === 1) {
    const reason = 'one core: a thread per role would only trade wakes';
    return { threads: [roles], manual: [roles], name: print([roles]), reason };
  }
  const threads = [['pack'], ['submit', 'poll', 'replay']] as const;
  const apart = `${cores} cores: packing alone, the device roles together, so that wakes do not outnumber the work`;
  const reason = grouped ? apart : `${apart}; in manual ticks the first thread has all roles`;
  return { threads, manual: grouped ? threads : [roles, []], name: print(threads), reason };
}

/**
 * Returns the thread that hosts each role, in the order of `roles`, or CLIENT for each if no thread
 * does.
 */
export function hostsIn(threads: readonly (readonly Role[])[]): number[] {
  return roles.map((role) =>
    threads.length === 0 ? CLIENT : threads.findIndex((hosted) => hosted.includes(role)),
  );
}

function print(threads: readonly (readonly Role[])[]): string {
  return threads.map((hosted) => `[${hosted.join(' ')}]`).join(' ');
}

export type CheckedOptions = Required<
  Omit<CommonOptions, 'mailbox' | 'trace' | 'placement' | 'signal' | 'deviceRing' | 'group'>
> & {
  source: BatchSource;
  /**
   * layout for rows on a device, or null if the options exclude such rows. `noRing` says why rows
   * cannot live on any device, and is '' if they can
   */
  ring: CheckedRing | null;
  noRing: string;
  mailbox: WeightMailbox | null;
  group: LearnerGroup | null;
  trace: false | Required<TraceOptions>;
  placement: RolePlacement;
};

const known = [
  'buffer',
  'view',
  'sampler',
  'beta',
  'device',
  'sampleCount',
  'depth',
  'baseSeed',
  'placement',
  'restart',
  'trace',
  'mailbox',
  'group',
  'transfer',
  'rows',
  'deviceRing',
  'journal',
  'signal',
];

/** Returns why rows cannot live on any device with these options, or '' if they can. */
function noRingOf(buffer: ReplayBuffer | TrajectoryBuffer, transfer: TransferChoice): string {
  if (buffer instanceof ReplayBuffer && buffer.capacity < 2)
    return 'guard needs a buffer of at least two rows';
  return transfer === 'immediate' || transfer === 'auto'
    ? ''
    : `transfer: '${transfer}' applies to batches that are packed on the host`;
}

export function checkOptions(options: PipelineOptions | TrajectoryPipelineOptions): CheckedOptions {
  checkKeys('ReplayPipeline.open', options, known);
  checkSignal(options.signal);
  options.signal?.throwIfAborted();
  const { buffer, device, mailbox = null, group = null, trace = false, journal = 8192 } = options;
  if (!(buffer instanceof ReplayBuffer || buffer instanceof TrajectoryBuffer))
    throw typeError(
      `buffer must be a ReplayBuffer or a TrajectoryBuffer, got ${describeValue(buffer)}`,
    );
  if (typeof device !== 'string')
    throw typeError(`device must be a string such as 'auto' or 'host:0', got ${typeof device}`);
  if (mailbox !== null && !(mailbox instanceof WeightMailbox))
    throw typeError('mailbox must be a WeightMailbox');
  if (group !== null && !(group instanceof LearnerGroup))
    throw typeError(`group must be a LearnerGroup, got ${describeValue(group)}`);
  const sampleCount = checkCount('sampleCount', options.sampleCount, 1, 2 ** 31 - 1);
  checkCount('journal', journal, 64, 2 ** 20);
  if ((journal & (journal - 1)) !== 0)
    throw rangeError(`journal must be a power of two, got ${journal}`);
  buffer.limiter?.checkBand({ sampleCount });
  if (trace !== false) {
    checkKeys('trace', trace, ['file', 'deviceEvents']);
    if (typeof trace.file !== 'string')
      throw typeError(`trace.file must name the file to write, got ${describeValue(trace.file)}`);
  }
  const placement = placementOf(options.placement, { grouped: group !== null });
  const restart = checkCount('restart', options.restart ?? 0, 0);
  if (restart > 0 && placement.threads.length === 0)
    throw rangeError(`restart ${restart} needs actors in threads; placement 'inline' has none`);
  const rows = checkRows(options.rows);
  if (options.deviceRing !== undefined && rows === 'host')
    throw rangeError(
      "deviceRing needs rows: 'device' or 'auto'; this pipeline keeps its rows on the host",
    );
  if (options.deviceRing !== undefined) checkKeys('deviceRing', options.deviceRing, RING_OPTIONS);
  const transfer = checkTransfer(options.transfer ?? 'auto');
  const noRing = noRingOf(buffer, transfer);
  const onDevice = rows !== 'host' && noRing === '';
  const rowsRing =
    onDevice && buffer instanceof ReplayBuffer
      ? checkRing(buffer, sampleCount, options.deviceRing)
      : null;
  if (buffer instanceof TrajectoryBuffer) checkStepsOptions(options.deviceRing);
  const depth = checkCount('depth', options.depth ?? 4, 2, MAX_SLOTS);
  const baseSeed = checkCount('baseSeed', options.baseSeed ?? 0, 0);
  // The source is created after all other checks, because it may bind a sampler. If a later check
  // threw, the sampler would stay bound.
  const source = new BatchSource({
    ...(options as TrajectoryPipelineOptions),
    buffer,
    sampleCount,
  });
  const { steps } = source;
  const ring =
    onDevice && steps ? checkSteps({ ...steps, ...steps.layout }, options.deviceRing) : rowsRing;
  return {
    source,
    device,
    sampleCount,
    depth,
    baseSeed,
    placement,
    restart,
    trace:
      trace === false
        ? false
        : { file: checkPath('trace.file', trace.file), deviceEvents: trace.deviceEvents ?? true },
    mailbox,
    group,
    transfer,
    rows,
    ring,
    noRing,
    journal,
  };
}
