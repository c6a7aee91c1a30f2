/**
 * Tests stops of two learners of a group between any two steps of opener, requester, pack, submit,
 * poll, replay and averager. The settings differ in how many points are tried, from every eighth
 * change to all. Faults that Hotslot had once are injected and must be detected.
 */
import { expect } from 'chai';
import { GroupRank } from '../../src/engine/group/group-rank.ts';
import { Verdict } from '../../src/engine/group/verdict.ts';
import { Header } from '../../src/engine/ring/header.ts';
import { RunFields } from '../../src/engine/ring/run-fields.ts';
import { itLong, itLonger, setting } from '../rig/setting.ts';
import type { World } from './stepped-world.ts';
import { type Case, clearUp, type How, type Planned, play, type Stop, stops } from './stopped.ts';

const cases: readonly Case[] = [
  { ticks: [3, 3], every: 1 },
  { ticks: [3, 2], every: 2 },
];
/** Rank 0 waits in its first exchange, so its run ends only if it is stopped. */
const starved: Case = { ticks: [3, 3], every: 1, starved: true };
/** After this number of points rank 0 only waits. */
const STARVED_POINTS = 100;
const ranks = [0, 1] as const;

interface Everywhere extends How {
  /** number of points between two cases */
  readonly step?: number;
  readonly only?: readonly Stop[];
  readonly of?: readonly (0 | 1)[];
  /** a second stop of the same rank, `after` points later */
  readonly second?: { readonly stop: Stop; readonly after: number };
}

/** Plays each stop on each rank at every point. Returns the number of cases. */
async function everywhere(
  of: Case,
  { step = 1, only = stops, of: who = ranks, second, ...more }: Everywhere = {},
): Promise<number> {
  let played = 0;
  for (const stop of only)
    for (const rank of who)
      for (
        let at = 0, points = 1;
        at < points && (!of.starved || at < STARVED_POINTS);
        at += step, played++
      ) {
        const planned: Planned[] = [{ stop, rank, at }];
        if (second !== undefined) planned.push({ stop: second.stop, rank, at: at + second.after });
        points = await play(of, planned, more);
      }
  return played;
}

/** Returns a mulberry32 generator. */
function drawn(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

describe('stops of two stepped learners', function () {
  this.timeout(setting({ short: 300_000, all: 1_800_000, long: 20 * 3_600_000 }));

  afterEach(clearUp);

  for (const of of cases)
    itLonger(
      `both runs end correctly with one stop anywhere, ticks ${of.ticks.join(' and ')}, a mean every ${of.every}`,
      async function () {
        const short: Everywhere = of === cases[0] ? { everywhere: false, step: 8 } : { step: 24 };
        const played = await everywhere(
          of,
          setting<Everywhere>({ short, all: { step: 7 }, long: {} }),
        );
        expect(played).to.be.greaterThan(50);
        this.test!.title += `: ${played} cases`;
      },
    );

  itLonger(
    'an abort at any point ends the run of a rank that waits for a rank without rows',
    async () => {
      const how: Everywhere = setting({ short: { everywhere: false, step: 8 }, all: {} });
      await everywhere(starved, { only: ['abort'], of: [0], ...how });
    },
  );

  itLonger('both runs end correctly with two random stops in random orders of steps', async () => {
    for (let seed = 1; seed <= setting({ short: 15, all: 300, long: 1500 }); seed++) {
      const random = drawn(seed);
      const one = (): Planned => ({
        stop: stops[Math.floor(random() * stops.length)] as Stop,
        rank: random() < 0.5 ? 0 : 1,
        at: Math.floor(random() * 260),
      });
      const of = cases[seed % cases.length] as Case;
      const planned = [one(), one()];
      try {
        await play(of, planned, { random });
      } catch (error) {
        throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
      }
    }
  });

  for (const first of stops)
    itLong(
      `both runs end correctly with ${first} and a later stop of the other rank, at every change`,
      async function () {
        let played = 0;
        for (const of of cases)
          for (const second of stops)
            for (const rank of ranks)
              for (let at = 0, points = 1; at < points; at++)
                for (let then = at; then < Math.max(points, at + 1); then++, played++) {
                  const planned: Planned[] = [
                    { stop: first, rank, at },
                    { stop: second, rank: (1 - rank) as 0 | 1, at: then },
                  ];
                  points = await play(of, planned, { everywhere: false });
                }
        this.test!.title += `: ${played} cases`;
      },
    );

  describe('injected faults are detected', () => {
    const faults: Record<string, (world: World) => void> = {
      'an abort that only rings': (world) => {
        world.replace(
          Header.prototype,
          'end',
          (end) =>
            function (this: Header, why) {
              world.later(() => end.call(this, why));
            },
        );
      },
      'a request that is not looked at again behind its store': (world) => {
        world.replace(Header.prototype, 'mayRequest', () => () => true);
      },
      'a save that lets an aborted run go on': (world) => {
        world.replace(
          Header.prototype,
          'release',
          (release) =>
            function (this: Header) {
              const { mode } = this;
              release.call(this);
              if (mode === 0) return;
              this.endRun();
              this.beginRun();
            },
        );
      },
      'letters that do not say that a run ends': (world) => {
        world.replace(
          GroupRank.prototype,
          'start',
          (start) =>
            function (this: GroupRank, purpose, vector, every) {
              start.call(this, purpose, vector, every, 0);
            },
        );
      },
      'a signal that does not end the exchange that is waited for': (world) => {
        world.replace(GroupRank.prototype, 'endExchange', () => () => false);
      },
      'an exchange that is taken although it was ended': (world) => {
        world.replace(Verdict.prototype, 'take', () => () => null);
      },
      'batches behind the end that are applied': (world) => {
        const { get } = Object.getOwnPropertyDescriptor(RunFields.prototype, 'endsAt') as {
          get(this: RunFields): number;
        };
        world.redefine(RunFields.prototype, 'endsAt', { get: () => Number.POSITIVE_INFINITY }, get);
      },
      'roles that keep their seats when the ring is rewound': (world) => {
        world.replace(Header.prototype, 'rewind', () => () => {});
      },
    };
    const shownBy: Record<string, Everywhere> = {
      'a save that lets an aborted run go on': {
        only: ['hold'],
        second: { stop: 'abort', after: 40 },
      },
      'an exchange that is taken although it was ended': { only: ['close'] },
    };
    for (const [fault, breaks] of Object.entries(faults))
      it(fault, async () => {
        let found: unknown = null;
        const shown =
          fault === 'a signal that does not end the exchange that is waited for'
            ? [starved]
            : cases;
        for (const of of shown)
          found ??= await everywhere(of, {
            only: ['abort'],
            of: of.starved ? [0] : ranks,
            breaks,
            ...shownBy[fault],
          }).then(
            () => null,
            (error: unknown) => error,
          );
        expect(found, 'the error that shows the fault').to.be.instanceOf(Error);
      });
  });
});
