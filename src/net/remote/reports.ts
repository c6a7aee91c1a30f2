/**
 * Combines the reports of the learner's threads: as statistics for callers, as the status that
 * other programs read, and as text.
 */

import type { RemoteSpread, RemoteStatus } from '../../run/collectors/remote-status.ts';
import type { CollectorStatistics } from '../../run/collectors/statistics.ts';
import type { RemoteReport } from './remote-thread.ts';

/** Statistics of collectors on other machines, and of the rows that the learner receives. */
export interface RemoteStatistics
  extends CollectorStatistics,
    Omit<RemoteStatus, 'time' | 'epoch' | 'run' | 'hosts'> {
  /** number of live hosts, and of hosts that have been silent for ten seconds */
  hosts: number;
  silent: number;
  /** whether all threads are connected to the server */
  connected: boolean;
}

/** Milliseconds over which rates are measured. */
const RATE_MS = 2000;

type Sums = RemoteReport['sums'];
/** The counts of a host, which only grow. */
interface Counted {
  readonly steps: number;
  readonly episodes: number;
  readonly waits: number;
}
const NOTHING: Counted = { steps: 0, episodes: 0, waits: 0 };

interface Moment {
  readonly at: number;
  readonly rows: number;
  readonly bytes: number;
  readonly gatedMs: number;
}

export class Reports {
  readonly #of: (RemoteReport | null)[];
  /** final counts of threads that ended */
  readonly #before: RemoteReport['counts'][] = [];
  /**
   * for each stream whose thread was replaced, the hosts' sums of the earlier thread. They are used
   * until the new thread has looked up all hosts
   */
  readonly #held = new Map<number, Sums>();
  /**
   * counts of hosts by session, from threads that ended. The next thread may find no counts of a
   * host that has gone or cannot be reached. So for each host the larger counts of both threads are
   * used
   */
  readonly #received = new Map<number, Counted>();
  readonly #moments: Moment[] = [];
  readonly #since = performance.now();
  #closed = false;

  readonly #lost: () => number;

  /**
   * `lost` returns the number of rows that no learner has any more. The marks count them, so the
   * end of a thread does not reset the number.
   */
  constructor(shards: number, lost: () => number) {
    this.#lost = lost;
    this.#of = Array.from({ length: shards }, () => null);
  }

  /** Keeps the counts of a thread that ended, because its successor counts from 0. */
  ended(shard: number): void {
    const last = this.#of[shard];
    const sums = this.#sumsOf(shard);
    if (last) {
      this.#before.push(last.counts);
      for (const [session, counted] of this.#countedOf(last)) this.#received.set(session, counted);
    }
    if (sums) this.#held.set(shard, sums);
    this.#of[shard] = null;
  }

  take(shard: number, report: RemoteReport): void {
    this.#of[shard] = report;
    if (report.sums.looked) this.#held.delete(shard);
    const now = performance.now();
    const { rows, bytes } = this.#counts();
    const gatedMs = this.#sum((each) => each.gatedMs);
    this.#moments.push({ at: now, rows, bytes, gatedMs });
    while (this.#moments.length > 2 && now - (this.#moments[0] as Moment).at > RATE_MS)
      this.#moments.shift();
  }

  statistics(): RemoteStatistics {
    const { hosts, time: _time, epoch: _epoch, run: _run, ...rest } = this.status('', 0);
    const all = this.#of.flatMap((_, shard) => this.#sumsOf(shard) ?? []);
    const sum = (of: (sums: Sums) => number) => all.reduce((so, sums) => so + of(sums), 0);
    const recent = sum(({ recent: some }) => some);
    const oldest = Math.min(...all.map(({ version }) => version));
    return {
      ...rest,
      ...this.#counted(),
      meanReturn: recent > 0 ? sum(({ returns }) => returns) / recent : Number.NaN,
      recent,
      version: Number.isFinite(oldest) ? oldest : 0,
      hosts: hosts.filter(({ state }) => state === 'live').length,
      silent: hosts.filter(({ state }) => state === 'silent').length,
      connected: this.connected,
    };
  }

  /** Ends the reports. From then on, statistics() has the last values, and `connected` is false. */
  close(): void {
    this.#closed = true;
  }

  get connected(): boolean {
    const all = this.#all();
    return !this.#closed && all.length > 0 && all.every(({ connected }) => connected);
  }

  waitingFor(): string | null {
    const all = this.#all();
    if (all.length === 0 || this.#closed) return null;
    if (!all.every(({ connected }) => connected))
      return 'rows: the server of the collector hosts is not connected';
    const hosts = all
      .flatMap((report) => report.hosts)
      .filter(({ state }) => state === 'live' || state === 'silent');
    if (hosts.length === 0) return 'rows: no collector host has connected yet';
    const silent = hosts.filter(({ state }) => state === 'silent');
    const longest = Math.max(0, ...silent.map(({ silentMs }) => silentMs));
    const many = hosts.length === 1 ? '1 host' : `${hosts.length} hosts`;
    return `rows: ${many}${silent.length > 0 ? `, ${silent.length} silent for ${Math.round(longest / 1000)} s` : ''}`;
  }

  status(run: string, epoch: number): RemoteStatus {
    const counts = this.#counts();
    const [first, last] = [this.#moments[0], this.#moments.at(-1)];
    const ms =
      first && last
        ? Math.max(1, last.at - first.at)
        : Math.max(1, performance.now() - this.#since);
    const rate = (of: (moment: Moment) => number) =>
      first && last ? (of(last) - of(first)) / ms : 0;
    const all = this.#all();
    return {
      time: Date.now(),
      epoch,
      run,
      rows: counts.rows,
      rowsPerSecond: Math.max(0, 1000 * rate(({ rows }) => rows)),
      bytesPerSecond: Math.max(0, 1000 * rate(({ bytes }) => bytes)),
      duplicates: counts.duplicates,
      gaps: counts.gaps,
      stale: counts.stale,
      refused: counts.refused,
      lost: counts.lost,
      lag: spreadOf(all.map(({ lags }) => lags)),
      gated: Math.min(
        1,
        Math.max(
          0,
          rate(({ gatedMs }) => gatedMs),
        ),
      ),
      windowFull: all.length > 0 ? this.#sum(({ sums }) => sums.full) / all.length : 0,
      versionLag: spreadOf(all.map(({ behind }) => behind)),
      streamBytes: this.#sum(({ sums }) => sums.underWay),
      hosts: all.flatMap(({ hosts }) => hosts),
    };
  }

  /** Returns the sums of a stream's hosts, or null before they are known. */
  #sumsOf(shard: number): Sums | null {
    return this.#held.get(shard) ?? this.#of[shard]?.sums ?? null;
  }
  /**
   * Yields the counts of each session: the larger ones of this report and of the earlier threads.
   */
  *#countedOf({ sums: { counted } }: RemoteReport): Generator<[session: number, Counted]> {
    for (let at = 0; at < counted.length; at += 4) {
      const [session, steps, episodes, waits] = counted.subarray(at, at + 4) as unknown as [
        number,
        number,
        number,
        number,
      ];
      const { steps: s, episodes: e, waits: w } = this.#received.get(session) ?? NOTHING;
      yield [
        session,
        { steps: Math.max(steps, s), episodes: Math.max(episodes, e), waits: Math.max(waits, w) },
      ];
    }
  }
  #counted(): Counted {
    const hosts = new Map(this.#received);
    for (const report of this.#all())
      for (const [session, counted] of this.#countedOf(report)) hosts.set(session, counted);
    const sum = { ...NOTHING };
    for (const name of ['steps', 'episodes', 'waits'] as const)
      for (const host of hosts.values()) sum[name] += host[name];
    return sum;
  }
  #all(): RemoteReport[] {
    return this.#of.filter((report) => report !== null);
  }
  #sum(of: (report: RemoteReport) => number): number {
    return this.#all().reduce((sum, report) => sum + of(report), 0);
  }
  #counts() {
    const of = (name: keyof RemoteReport['counts']) =>
      this.#before.reduce((sum, counts) => sum + counts[name], 0) +
      this.#sum(({ counts }) => counts[name]);
    return {
      rows: of('rows'),
      bytes: of('bytes'),
      duplicates: of('duplicates'),
      gaps: of('gaps'),
      stale: of('stale'),
      refused: of('refused'),
      lost: this.#lost(),
    };
  }
}

function spreadOf(all: readonly Float64Array[]): RemoteSpread {
  const sorted = Float64Array.from(all.flatMap((each) => [...each])).sort();
  const at = (share: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
  return { p50: at(0.5), p99: at(0.99) };
}
