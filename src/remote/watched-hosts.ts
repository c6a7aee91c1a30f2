/** Hosts as the learner knows them: what each says of itself, read once a second, and what came of it. */
import { type HostStat, readStat, SAID, STAT_LIFE_MS } from './host-stat.ts';
import type { Ingest, Session } from './ingest.ts';
import type { Keys } from './keys.ts';
import type { Link } from './link.ts';
import type { RemoteHostState, RemoteHostStatus } from './status.ts';

interface Watched {
  stat: HostStat | null;
  /** ms since 1970 */
  readonly since: number;
  saidMs: number;
}

/** A host that was silent for so long is not asked for any more, until something of it comes. */
const FORGET_MS = 60_000;
/** Ended hosts that are still told of. */
const MOST_ENDED = 100;

export class WatchedHosts {
  readonly #link: Link;
  readonly #keys: Keys;
  readonly #ingest: Ingest;
  readonly #known = new Map<number, Watched>();
  #reading = false;

  constructor(given: { link: Link; keys: Keys; ingest: Ingest }) {
    this.#link = given.link;
    this.#keys = given.keys;
    this.#ingest = given.ingest;
  }

  /** Reads what they say. How many are there now. */
  async read(now: number): Promise<number> {
    const sessions = [...this.#ingest.sessions.values()].filter(({ ended }) => !ended);
    const asked = sessions.filter((session) => !this.#known.has(session.id) || now - this.#heard(session) < FORGET_MS);
    for (const { id } of sessions) if (!this.#known.has(id)) this.#known.set(id, { stat: null, since: now, saidMs: 0 });
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
        for (const end of await Promise.allSettled(read)) if (end.status === 'rejected') break;
      } finally {
        this.#reading = false;
      }
    }
    return sessions.filter((session) => this.#stateOf(session, now) === 'live').length;
  }

  /** The newest first. */
  status(now: number): RemoteHostStatus[] {
    const all = [...this.#ingest.sessions.values()].reverse();
    let ended = 0;
    return all
      .filter((session) => !session.ended || ++ended <= MOST_ENDED)
      .map((session) => {
        const { id, rows, version } = session;
        const watched = this.#known.get(id);
        const stat = watched?.stat;
        return {
          ...{ session: id, host: stat?.host ?? '?', pid: stat?.pid ?? 0, since: watched?.since ?? now },
          ...{ workers: stat?.workers ?? 0, steps: stat?.steps ?? 0, episodes: stat?.episodes ?? 0 },
          ...{ meanReturn: stat?.meanReturn ?? null, version, rows, waiting: stat?.waiting ?? 0 },
          silentMs: Math.max(0, now - this.#heard(session)),
          ...{ state: this.#stateOf(session, now), why: stat?.failed ?? '' },
        };
      });
  }

  /** Sums of what living hosts say. */
  sums(now: number) {
    const sum = {
      episodes: 0,
      steps: 0,
      waits: 0,
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
      sum.steps += stat.steps;
      sum.episodes += stat.episodes;
      sum.waits += stat.waits;
      sum.recent += stat.recent;
      sum.returns += stat.recent * (stat.meanReturn ?? 0);
      if (this.#stateOf(session, now) !== 'live') continue;
      sum.version = Math.min(sum.version, stat.version);
      sum.full += stat.full;
      sum.underWay += stat.underWay;
      live++;
    }
    return { ...sum, full: live > 0 ? Math.min(1, sum.full / live) : 0 };
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
