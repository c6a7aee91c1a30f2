/**
 * Hosts as the learner knows them: what each says of itself, read once a second, and what came of
 * it. Who is there is judged by performance.now(): a wall clock that jumps would end hosts that
 * live, and keep dead ones.
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
  saidMs: number;
}

/** A host that was silent for so long is not asked for any more, until something of it comes. */
const FORGET_MS = 60_000;
/** Ended hosts that are still told of, and refused ones. */
const MAX_ENDED = 100;
const MAX_REFUSED = 100;

export class WatchedHosts {
  readonly #link: Link;
  readonly #keys: Keys;
  readonly #ingest: Ingest;
  readonly #known = new Map<number, Watched>();
  #reading = false;
  /** every host that is there was asked, and answered */
  #looked = false;

  constructor(given: { link: Link; keys: Keys; ingest: Ingest }) {
    this.#link = given.link;
    this.#keys = given.keys;
    this.#ingest = given.ingest;
  }

  /** Reads what they say. How many are there now. */
  async read(): Promise<number> {
    const now = performance.now();
    const sessions = [...this.#ingest.sessions.values()].filter(({ ended }) => !ended);
    const there = sessions.filter(
      (session) => !this.#known.has(session.id) || now - this.#heard(session) < FORGET_MS,
    );
    const refused = this.#refused().filter(
      ({ id, since }) => !this.#known.get(id)?.stat && now - since < FORGET_MS,
    );
    const asked = [...there, ...refused];
    for (const { id } of [...sessions, ...refused])
      if (!this.#known.has(id))
        this.#known.set(id, { stat: null, since: now, saidMs: Number.NEGATIVE_INFINITY });
    if (!this.#reading) {
      this.#reading = true;
      try {
        const read = asked.map(async ({ id }) => {
          const [said = null] = await this.#link.load(this.#keys.stat(id), [SAID]);
          const stat = said === null ? null : readStat(said);
          const watched = this.#known.get(id) as Watched;
          // What it said has outlived it: so long ago it was said.
          if (said === null) watched.saidMs = Math.min(watched.saidMs, now - STAT_LIFE_MS - 1);
          if (!stat) return;
          watched.stat = stat;
          watched.saidMs = now;
        });
        const ends = await Promise.allSettled(read);
        this.#looked ||= ends.every(({ status }) => status === 'fulfilled');
      } finally {
        this.#reading = false;
      }
    }
    return sessions.filter((session) => this.#stateOf(session, now) === 'live').length;
  }

  /** The newest first; refused ones behind the others. */
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
        const told = {
          ...this.#told(id),
          since: watched?.since ?? now,
          silentMs: now - this.#heard(session),
        };
        return {
          ...told,
          version,
          rows,
          state: this.#stateOf(session, now),
          why: watched?.stat?.failed ?? '',
        };
      });
    const refused = this.#refused().map(({ id, since, why }) => {
      const { rows = 0, version = 0 } = this.#ingest.sessions.get(id) ?? {};
      return {
        ...this.#told(id),
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

  #told(id: number) {
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

  /** The last ones, the newest first. */
  #refused(): { id: number; since: number; why: string }[] {
    const last = [...this.#ingest.refused].slice(-MAX_REFUSED).reverse();
    return last.map(([id, { why, atMs }]) => ({ id, since: atMs, why }));
  }

  /**
   * Sums of what hosts say, those that have gone since included. `looked`: they are of every host
   * that is there. `counted` is what only grows, by hosts: session, steps, episodes, waits, and the
   * next one's.
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
    return { ...sum, full, counted: Float64Array.from(counted), looked: this.#looked };
  }

  #heard({ id, heardMs }: Session): number {
    const watched = this.#known.get(id);
    return Math.max(heardMs, watched?.saidMs ?? 0, watched?.since ?? 0);
  }

  #stateOf(session: Session, now: number): RemoteHostState {
    if (this.#known.get(session.id)?.stat?.failed) return 'failed';
    if (session.ended) return 'ended';
    return now - this.#heard(session) > STAT_LIFE_MS ? 'silent' : 'live';
  }
}
