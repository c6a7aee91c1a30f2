/** The faults of a storm and their times, which depend only on the seed. */
import { Random } from '../../src/index.ts';

/** How often each kind of fault comes, about per thousand. */
const shares = {
  /** a thread of the run is ended: of an actor, of a collector, or one that receives rows */
  terminate: 300,
  /** any thread of the process is frozen for some ms, at any instruction */
  freeze: 338,
  /** the whole process is stopped for a while */
  stop: 60,
  /** for a while the folder of checkpoints cannot be written: full, broken or read-only */
  disk: 60,
  /** the wall clock jumps, by between a second and ten years */
  clock: 40,
  /** the server of the remote rows restarts empty or is stopped, or its network is cut or silent */
  server: 50,
  /** the process of the remote collectors is killed or stopped */
  host: 50,
  /** a client asks the monitor, and disconnects early, reads nothing, or sends nonsense */
  client: 80,
  /** everything is closed, checked for leaks, and opened again from its checkpoints */
  life: 16,
  /** the process is killed, and a new one continues from the checkpoints */
  kill: 6,
} as const;
export type FaultKind = keyof typeof shares | 'driver';

export interface Fault {
  /** ms since the start */
  readonly at: number;
  readonly kind: FaultKind;
  /** chooses the target: pick modulo the number of targets */
  readonly pick: number;
  /** duration or distance, from 0 to 1 */
  readonly size: number;
}

/** Returns the faults of a storm. With `drivers`, calls of a GPU's driver fail too. */
export function scheduleOf(
  seed: number,
  seconds: number,
  { perSecond = 3, drivers = false } = {},
): Fault[] {
  const random = new Random(seed);
  const kinds: readonly (readonly [FaultKind, number])[] = [
    ...(Object.entries(shares) as [FaultKind, number][]),
    ...(drivers ? [['driver', 20] as const] : []),
  ];
  const all = kinds.reduce((sum, [, share]) => sum + share, 0);
  const faults: Fault[] = [];
  for (let at = 0; ; ) {
    at += (random.next() * 2000) / perSecond;
    if (at >= seconds * 1000) return faults;
    let left = random.next() * all;
    let chosen = 0;
    while (left >= kinds[chosen]![1] && chosen < kinds.length - 1) left -= kinds[chosen++]![1];
    faults.push({
      at,
      kind: kinds[chosen]![0],
      pick: Math.floor(random.next() * 2 ** 30),
      size: random.next(),
    });
  }
}

/** Returns the ms that a fault of this size lasts: mostly few, sometimes many. */
export const lasting = (size: number, most: number): number => Math.ceil(most * size ** 3);

/** Returns the ms by which the wall clock is set ahead, from −10 years to 10 years. */
export function jumpOf({ pick, size }: Fault): number {
  return (pick % 2 === 0 ? 1 : -1) * Math.round(1000 * (10 * 365 * 86_400) ** size);
}
