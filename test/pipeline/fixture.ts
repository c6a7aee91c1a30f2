/**
 * What pipeline tests share: a small filled buffer, an update that counts, and pipelines that are
 * always closed.
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

/** Who may be the first to hear that an update's kernel failed. */
export const failingActors = [
  'poll',
  'replay',
  ...(errorScope(TESTED) === 'device' ? ['submit'] : []),
];

/** Rows whose every field says which row it is. */
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
 * Opens one. In a short run on the host its actors are `inline` unless a test says otherwise: a
 * thread costs an eighth of a second of a core.
 */
export async function pipeline(options: Partial<PipelineOptions> = {}): Promise<ReplayPipeline> {
  // A copy of its own: a mistake in the order of things shows as wrong bytes.
  const copied = { transfer: 'immediate', device: TESTED, sampleCount: SAMPLE } as const;
  const placement = setting<'inline' | 'auto'>({ short: ON_HOST ? 'inline' : 'auto', all: 'auto' });
  const made = await ReplayPipeline.open({ buffer: filled(), placement, ...copied, ...options });
  open.push(made);
  return made;
}

/** For afterEach: closes what a test opened, failed or not. */
export async function closeAll(): Promise<void> {
  await Promise.all(open.splice(0).map((made) => made.close()));
}

/**
 * An update that adds one to a counter on the device and reports it: applied exactly once per tick,
 * the reports are 1, 2, 3, …
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
