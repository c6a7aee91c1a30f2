/**
 * Shared by pipeline tests: a small filled buffer, an update that counts, and pipelines that are
 * closed after each test.
 */
import {
  openDevice,
  type PipelineOptions,
  ReplayBuffer,
  ReplayPipeline,
  type Tensor,
} from '../../src/index.ts';
import { errorScope } from '../rig/error-scope.ts';
import { setting } from '../rig/setting.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';

export const SAMPLE = 16;
export const SPREAD = [['pack'], ['submit'], ['poll'], ['replay']] as const;

/** The actors that may be the first to see that an update's kernel failed. */
export const failingActors = [
  'poll',
  'replay',
  ...(errorScope(TESTED) === 'device' ? ['submit'] : []),
];

/** Creates rows. Every field of a row holds the row's number. */
export function rows(n: number, from = 0) {
  const field = (width: number) =>
    Float32Array.from({ length: n * width }, (_, i) => from + Math.floor(i / width));
  return {
    obs: field(4),
    nextObs: field(4),
    actions: field(1),
    rewards: field(1),
    dones: field(1),
    truncated: field(1),
  };
}

export function filled(n = 100, capacity = 1000): ReplayBuffer {
  const buffer = ReplayBuffer.offPolicy({ capacity, obsDim: 4, actionDim: 1 });
  if (n > 0) buffer.add(rows(n));
  return buffer;
}

const open: ReplayPipeline[] = [];

/**
 * Opens a pipeline. In a short run on the host its actors are `inline` unless the test sets a
 * placement. Opening a thread takes an eighth of a second of a core.
 */
export async function pipeline(options: Partial<PipelineOptions> = {}): Promise<ReplayPipeline> {
  // Each batch is copied at once, so that a wrong order shows as wrong bytes.
  const copied = { transfer: 'immediate', device: TESTED, sampleCount: SAMPLE } as const;
  const placement = setting<'inline' | 'auto'>({ short: ON_HOST ? 'inline' : 'auto', all: 'auto' });
  const made = await ReplayPipeline.open({ buffer: filled(), placement, ...copied, ...options });
  open.push(made);
  return made;
}

/** For afterEach(): closes all pipelines that a test opened, also if the test failed. */
export async function closeAll(): Promise<void> {
  await Promise.all(open.splice(0).map((made) => made.close()));
}

/**
 * Captures an update that adds one to a counter on the device and reports it. If each tick is
 * applied exactly once, the reports are 1, 2, 3, …
 */
export function counter(made: ReplayPipeline): { count: Tensor; close(): void } {
  const device = openDevice(made.transferManifest.device);
  const count = device.allocate({ shape: [1] });
  const one = device.allocate({ shape: [1] }).write(Float32Array.of(1));
  made.capture(
    (_, { stream, out }) => {
      stream.launch('axpby', { tensors: [count, one], wholes: [1], reals: [1, 1] });
      stream.copy(out.view({ shape: [1] }), count);
    },
    { scalars: ['count'] },
  );
  return {
    count,
    close() {
      count.close();
      one.close();
    },
  };
}
