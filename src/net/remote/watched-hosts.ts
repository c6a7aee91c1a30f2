/**
 * The hosts as the learner knows them: the statistics that each host reports, read once a second,
 * and the rows that each host has sent.
 *
 * performance.now() decides whether a host is live. With a wall clock, a jump of the clock would
 * make live hosts count as silent, or silent hosts as live.
 */

import type { RemoteHostState, RemoteHostStatus } from '../../run/collectors/remote-status.ts';
import { type HostStat, readStat, SAID, STAT_LIFE_MS } from './host-stat.ts';
import type { Ingest } from './ingest.ts';
import type { Keys } from './keys.ts';
import type { Link } from './link.ts';
import type { Session } from './session.ts';

interface Watched {
  stat: HostStat | null;
  readonly since: number;
  reportedMs: number;
}

/**
 * Milliseconds of silence after which a host is not looked up any more, until it sends a message.
 */
const FORGET_MS = 60_000;
/** Maximum numbers of ended and refused hosts in a status. */
const MAX_ENDED = 100;
const MAX_REFUSED = 100;

export class WatchedHosts {
  readonly #link: Link;
  readonly #keys: Keys;
  readonly #ingest: Ingest;
  readonly #known = new Map<number, Watched>();
  #reading = false;
  /** whether the statistics of all present hosts have been looked up at least once */
  #polled = false;

  constructor(given: { link: Link; keys: Keys; ingest: Ingest }) {
    this.#link = given.link;
    this.#keys = given.keys;
    this.#ingest = given.ingest;
  }

  /** Reads the hosts' statistics. Returns how many hosts are live now. */
  async read(): Promise<number> {
    const now = performance.now();
    const sessions = [...this.#ingest.sessions.values()].filter(({ ended }) => !ended);
    const there = sessions.filter(
      (session) => !this.#known.has(session.id) || now - this.#received(session) < FORGET_MS,
    );
    const refused = this.#refused().filter(
      ({ id, since }) => !this.#known.get(id)?.stat && now - since < FORGET_MS,
    );
    const wanted = [...there, ...refused];
    for (const { id } of [...sessions, ...refused])
      if (!this.#known.has(id))
        this.#known.set(id, { stat: null, since: now, reportedMs: Number.NEGATIVE_INFINITY });
    if (!this.#reading) {
      this.#reading = true;
      try {
        const read = wanted.map(async ({ id }) => {
          const [json = null] = await this.#link.load(this.#keys.stat(id), [SAID]);
          const stat = json === null ? null : readStat(json);
          const watched = this.#known.get(id) as Watched;
          // The last report has expired, so it is older than STAT_LIFE_MS.
          if (json === null)
            watched.reportedMs = Math.min(watched.reportedMs, now - STAT_LIFE_MS - 1);
          if (!stat) return;
          watched.stat = stat;
          watched.reportedMs = now;
        });
        const ends = await Promise.allSettled(read);
        this.#polled ||= ends.every(({ status }) => status === 'fulfilled');
      } finally {
        this.#reading = false;
      }
    }
    return sessions.filter((session) => this.#stateOf(session, now) === 'live').length;
  }

  /** Returns the status of the hosts: the newest hosts first, and refused hosts last. */
  status(): RemoteHostStatus[] {
    const now = performance.now();
    const all = [...this.#ingest.sessions.values()]
      .reverse()
      .filter(({ id }) => !this.#ingest.refused.has(id));
    let ended = 0;
    const taken = all
      .filter((session) => !session.ended || ++ended <= MAX_ENDED)
      .map((session) => {
        const { id, rows, version } = session;
        const watched = this.#known.get(id);
        const status = {
          ...this.#statusOf(id),
          since: watched?.since ?? now,
          silentMs: now - this.#received(session),
        };
        return {
          ...status,
          version,
          rows,
          state: this.#stateOf(session, now),
          why: watched?.stat?.failed ?? '',
        };
      });
    const refused = this.#refused().map(({ id, since, why }) => {
      const { rows = 0, version = 0 } = this.#ingest.sessions.get(id) ?? {};
      return {
        ...this.#statusOf(id),
        since,
        silentMs: now - since,
        version,
        rows,
        state: 'refused' as const,
        why,
      };
    });
    const calendar = Date.now() - now;
    return [...taken, ...refused].map((host) => ({
      ...host,
      since: Math.round(calendar + host.since),
    }));
  }

  #statusOf(id: number) {
    const stat = this.#known.get(id)?.stat;
    return {
      session: id,
      host: stat?.host ?? '?',
      pid: stat?.pid ?? 0,
      workers: stat?.workers ?? 0,
      steps: stat?.steps ?? 0,
      episodes: stat?.episodes ?? 0,
      meanReturn: stat?.meanReturn ?? null,
      waiting: stat?.waiting ?? 0,
    };
  }

  /** Returns the last refused hosts, the newest first. */
  #refused(): { id: number; since: number; why: string }[] {
    const last = [...this.#ingest.refused].slice(-MAX_REFUSED).reverse();
    return last.map(([id, { why, atMs }]) => ({ id, since: atMs, why }));
  }

  /**
   * Returns sums of the hosts' statistics, including hosts that have gone since. `looked` is true
   * if all present hosts were looked up. `counted` has four elements for each host, whose counts
   * only grow: session, steps, episodes, waits.
   */
  sums() {
    const now = performance.now();
    const counted: number[] = [];
    const sum = {
      recent: 0,
      returns: 0,
      version: Number.POSITIVE_INFINITY,
      full: 0,
      underWay: 0,
    };
    let live = 0;
    for (const session of this.#ingest.sessions.values()) {
      const stat = this.#known.get(session.id)?.stat;
      if (!stat) continue;
      counted.push(session.id, stat.steps, stat.episodes, stat.waits);
      sum.recent += stat.recent;
      sum.returns += stat.recent * (stat.meanReturn ?? 0);
      if (this.#stateOf(session, now) !== 'live') continue;
      sum.version = Math.min(sum.version, stat.version);
      sum.full += stat.full;
      sum.underWay += stat.underWay;
      live++;
    }
    const full = live > 0 ? Math.min(1, sum.full / live) : 0;
    return { ...sum, full, counted: Float64Array.from(counted), looked: this.#polled };
  }

  #received({ id, lastMs }: Session): number {
    const watched = this.#known.get(id);
    return Math.max(lastMs, watched?.reportedMs ?? 0, watched?.since ?? 0);
  }

  #stateOf(session: Session, now: number): RemoteHostState {
    if (this.#known.get(session.id)?.stat?.failed) return 'failed';
    if (session.ended) return 'ended';
    return now - this.#received(session) > STAT_LIFE_MS ? 'silent' : 'live';
  }
}
