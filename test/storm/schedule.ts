/** What a storm does and when: a function of its seed, and of nothing else. */
import { Random } from '../../src/index.ts';

/** How often each kind comes, of a thousand. */
const shares = {
  /** a thread of the run is ended: an actor's, a collector's, one that receives */
  terminate: 300,
  /** any thread of the process stands still for some ms, wherever it is */
  freeze: 338,
  /** the whole process stands still */
  stop: 60,
  /** for a while the folder of checkpoints takes nothing: full, broken or read-only */
  disk: 60,
  /** the wall clock jumps, by a second or by years */
  clock: 40,
  /**
   * the server of the remote rows: ends and comes back empty, stands still, or the network is cut
   * or silent
   */
  server: 50,
  /** the process of the remote collectors is killed, or stands still */
  host: 50,
  /** somebody asks the monitor: and goes in the midst, takes nothing, or talks nonsense */
  client: 80,
  /** everything is closed, counted and opened again from its checkpoints */
  life: 16,
  /** the process is killed, and another goes on from the checkpoints */
  kill: 6,
} as const;
export type FaultKind = keyof typeof shares | 'driver';

export interface Fault {
  /** ms from the beginning */
  readonly at: number;
  readonly kind: FaultKind;
  /** chooses among what there is: modulo how many there are */
  readonly pick: number;
  /** from 0 to 1: how long, how far */
  readonly size: number;
}

/** With `drivers`, calls of a GPU's driver fail as well. */
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

/** ms that a fault of this size lasts: mostly short, at times long. */
export const lasting = (size: number, most: number): number => Math.ceil(most * size ** 3);

/** ms that a wall clock is ahead: from ten years behind to ten years ahead. */
export function jumpOf({ pick, size }: Fault): number {
  return (pick % 2 === 0 ? 1 : -1) * Math.round(1000 * (10 * 365 * 86_400) ** size);
}
