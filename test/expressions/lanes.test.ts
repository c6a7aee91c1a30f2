/**
 * Compares the lanes of small random plans with their launches in order, by every order of two streams
 * that the waits allow.
 */
import { expect } from 'chai';
import { apart, dependenciesOf, laidOut, longest } from '../../src/learn/trace/plan/depth.ts';
import {
  type Lane,
  type LanePlan,
  type SectionWaits,
  scheduled,
  type Task,
  type Wait,
  waitsIn,
  waitsOf,
  withLanes,
} from '../../src/learn/trace/plan/lanes.ts';
import type { Buffer, Launch, View } from '../../src/learn/trace/plan/launches.ts';
import { Choices } from './rig.ts';

const PLANS = 400;

/** A launch that writes a number of its own to each element, made of all elements that it reads. */
const launchOf = (views: readonly View[], given: Partial<Launch> = {}): Launch => ({
  kernel: 'unary',
  writes: 1,
  inPlace: [],
  wholes: [],
  reals: [],
  node: {} as Launch['node'],
  section: 0,
  ...{ views, ...given },
});
const bufferOf = (size: number, given: Partial<Buffer> = {}): Buffer => ({
  kind: 'arena',
  name: '',
  dtype: 'float32',
  tensor: null,
  output: false,
  readers: 0,
  ...{ size, ...given },
});
const viewOf = (buffer: Buffer, offset = 0, length = buffer.size): View => ({
  ...{ buffer, offset },
  shape: [length],
  strides: [1],
});

/** Draws the launches of a section. */
function drawnLaunches(seed: number): Launch[] {
  const choices = new Choices(seed);
  const buffers: Buffer[] = [];
  const launches: Launch[] = [];
  const some = (): View => {
    const buffer = choices.of(buffers);
    const offset = choices.below(buffer.size);
    return viewOf(buffer, offset, 1 + choices.below(buffer.size - offset));
  };
  const count = 2 + choices.below(8);
  for (let i = 0; i < count; i++) {
    const reads = buffers.length === 0 ? [] : Array.from({ length: choices.below(3) }, some);
    const draw = choices.chance(0.2) && { kernel: 'random_normal' };
    if (buffers.length > 0 && choices.chance(0.25)) {
      launches.push(launchOf([some(), ...reads], draw || {}));
      continue;
    }
    const whole = reads.find(({ buffer, shape }) => shape[0] === buffer.size);
    const size = whole && choices.chance(0.7) ? whole.buffer.size : 1 + choices.below(40);
    const buffer = bufferOf(size, { output: choices.chance(0.3) });
    const inPlace = whole?.buffer.size === size ? [1 + reads.indexOf(whole)] : [];
    launches.push(launchOf([viewOf(buffer), ...reads], { inPlace, ...draw }));
    buffers.push(buffer);
  }
  return launches;
}

const elements = ({ offset, shape }: View) =>
  Array.from({ length: shape[0]! }, (_, i) => offset + i);

/** Runs a launch on memory, and returns what it read as a number. */
function run(launch: Launch, id: number, at: (buffer: Buffer) => number, memory: number[]): number {
  let read = id + 1;
  for (const view of launch.views.slice(launch.writes))
    for (const i of elements(view))
      read = (Math.imul(read, 31) + (memory[at(view.buffer) + i] ?? 0)) | 0;
  const [out] = launch.views as [View];
  for (const i of elements(out)) memory[at(out.buffer) + i] = (Math.imul(read, 1_000_003) + i) | 0;
  return read;
}

/** Returns what each launch reads if the launches run in order, and no buffers share memory. */
function inOrder(launches: readonly Launch[]): ReadonlyMap<Launch, number> {
  const places = new Map<Buffer, number>();
  const at = (buffer: Buffer) => {
    if (!places.has(buffer)) places.set(buffer, 64 * places.size);
    return places.get(buffer)!;
  };
  const memory: number[] = [];
  return new Map(launches.map((launch, i) => [launch, run(launch, i, at, memory)]));
}

/** Returns whether two launches touch a common element or the generator, and one of them writes. */
function conflict(one: Launch, two: Launch, offsets: ReadonlyMap<Buffer, number>): boolean {
  if (one.kernel === two.kernel && one.kernel === 'random_normal') return true;
  const touched = ({ views, writes }: Launch) =>
    views.flatMap((view, v) =>
      elements(view).map((i) => ({ at: offsets.get(view.buffer)! + i, writes: v < writes })),
    );
  const others = touched(two);
  return touched(one).some((a) => others.some((b) => a.at === b.at && (a.writes || b.writes)));
}

/**
 * Calls `visit` with each launch in each order of two lanes that the waits allow. `done` has the
 * launches before it. An undefined launch is the end of the caller's stream.
 */
function everyOrder(
  { lanes, waits }: { readonly lanes: readonly Lane[]; readonly waits: readonly Wait[] },
  visit: (launch: number | undefined, done: ReadonlySet<number>) => void,
): void {
  const queues = [0, 1].map((lane) => [...lanes.keys()].filter((i) => lanes[i] === lane));
  queues[0]!.push(lanes.length); // the end
  const seen = new Set<string>();
  const explore = (main: number, side: number): void => {
    if (seen.has(`${main} ${side}`)) return;
    seen.add(`${main} ${side}`);
    const done = new Set([...queues[0]!.slice(0, main), ...queues[1]!.slice(0, side)]);
    for (const [q, at] of [main, side].entries()) {
      const next = queues[q]![at];
      if (next === undefined) continue;
      const ready = waits.every(
        ({ before, after }) => before !== next || after < 0 || done.has(after),
      );
      if (!ready) continue;
      visit(next === lanes.length ? undefined : next, done);
      explore(main + (q === 0 ? 1 : 0), side + (q === 1 ? 1 : 0));
    }
  };
  explore(0, 0);
}

/** Returns the first order of lanes that breaks the order of two launches, or null. */
function wrongOrder({ launches, layout }: LanePlan, laned: SectionWaits): string | null {
  let wrong: string | null = null;
  everyOrder(laned, (next, done) => {
    for (let j = 0; j < (next ?? launches.length); j++)
      if (
        !done.has(j) &&
        (next === undefined || conflict(launches[j]!, launches[next]!, layout.offsets))
      )
        wrong ??= `${next ?? 'the end'} runs before ${j}`;
  });
  return wrong;
}

describe('lanes of a plan', () => {
  const planned = (seed: number, poison: boolean, most?: number) => {
    const launches = drawnLaunches(seed);
    const plan = withLanes(launches, 'all', poison, most);
    return { launches, plan, laned: waitsIn(plan, 0, launches.length, poison) };
  };

  it(`${PLANS} plans read in every order of two streams what they read in order`, () => {
    let [laned, tight] = [0, 0];
    for (let seed = 0; seed < PLANS; seed++)
      for (const [poison, most] of [[false], [true], [false, 0], [true, 0]] as const) {
        const { launches, plan, laned: found } = planned(seed, poison, most);
        if (!found) continue;
        laned++;
        if (most === 0) tight++;
        const wanted = inOrder(launches);
        expect(plan.launches, `${seed}`).to.have.members(launches);
        expect(wrongOrder(plan, found), `plan ${seed}`).to.equal(null);
        // One order after another: first all that the caller's stream can run, and the other way round.
        for (const first of [0, 1] as const) {
          const memory: number[] = [];
          const done = new Set<number>();
          const ready = (i: number) =>
            found.lanes.every((lane, j) => j >= i || lane !== found.lanes[i] || done.has(j)) &&
            found.waits.every(({ before, after }) => before !== i || after < 0 || done.has(after));
          while (done.size < launches.length) {
            const open = [...found.lanes.keys()].filter((i) => !done.has(i) && ready(i));
            const next = open.find((i) => found.lanes[i] === first) ?? open[0]!;
            const launch = plan.launches[next]!;
            const at = (buffer: Buffer) => plan.layout.offsets.get(buffer)!;
            const read = run(launch, launches.indexOf(launch), at, memory);
            expect(read, `plan ${seed}, launch ${next}`).to.equal(wanted.get(launch));
            if (poison)
              for (const buffer of plan.layout.freed[next]!)
                memory.fill(7, at(buffer), at(buffer) + buffer.size);
            done.add(next);
          }
        }
      }
    expect(laned).to.be.above(PLANS);
    expect(tight).to.be.above(PLANS / 4);
  });

  it('each wait between two streams is needed', () => {
    let dropped = 0;
    for (let seed = 0; seed < PLANS; seed++) {
      const { plan, laned } = planned(seed, false);
      if (!laned) continue;
      expect(laned.waits[0]!.before, 'the side stream joins').to.equal(laned.lanes.indexOf(1));
      for (const wait of laned.waits) {
        if (wait.after < 0) continue;
        const waits = laned.waits.filter((each) => each !== wait);
        expect(wrongOrder(plan, { ...laned, waits }), `plan ${seed}`).to.not.equal(null);
        dropped++;
      }
    }
    expect(dropped).to.be.above(PLANS);
  });

  it('the places of buffers need no wait that the launches do not need', () => {
    let smaller = 0;
    for (let seed = 0; seed < PLANS; seed++) {
      const { plan, laned } = planned(seed, false);
      if (!laned) continue;
      const { waits } = waitsOf(laned.lanes, dependenciesOf(plan.launches, apart));
      expect(laned.waits, `plan ${seed}`).to.deep.equal(waits);
      if (plan.layout.size < plan.layout.unshared) smaller++;
    }
    expect(smaller).to.be.above(PLANS / 8);
  });

  it('dependencies order all launches that share an element', () => {
    for (let seed = 0; seed < PLANS; seed++) {
      const { layout, launches } = withLanes(drawnLaunches(seed), 'none', false);
      const needs = dependenciesOf(launches, laidOut(layout.offsets));
      const before = needs.map((): Set<number> => new Set());
      for (const [i, all] of needs.entries())
        for (const j of all) for (const k of [j, ...before[j]!]) before[i]!.add(k);
      for (const [i, launch] of launches.entries())
        for (let j = 0; j < i; j++)
          if (conflict(launches[j]!, launch, layout.offsets))
            expect(before[i]!.has(j), `plan ${seed}: ${j} and ${i}`).to.equal(true);
    }
  });

  it('a launch depends on writes of what it reads, and on uses of what it writes', () => {
    const [a, b, c] = [bufferOf(4), bufferOf(4), bufferOf(4)] as const;
    const launches = [
      launchOf([viewOf(a)]),
      launchOf([viewOf(b), viewOf(a, 0, 2)]),
      launchOf([viewOf(c), viewOf(a, 2, 2)]),
      launchOf([viewOf(a, 0, 2)]),
      launchOf([viewOf(a, 2, 2), viewOf(b)]),
    ];
    const needs = dependenciesOf(launches, (buffer) => ({ memory: buffer, offset: 0 }));
    expect(needs).to.deep.equal([[], [0], [0], [0, 1], [0, 1, 2]]);
    expect(longest([1, 1, 2, 1, 1], needs)).to.equal(4);
  });

  it('layers of users and draws keep their order', () => {
    const call = () => {};
    const x = bufferOf(2, { kind: 'input', name: 'x' });
    const w = bufferOf(2, { kind: 'constants' });
    const launches = [
      launchOf([viewOf(bufferOf(2)), viewOf(x)]),
      launchOf([viewOf(bufferOf(2)), viewOf(x)], { call }),
      launchOf([viewOf(bufferOf(2)), viewOf(w)], { kernel: 'random_uniform' }),
      launchOf([viewOf(bufferOf(2)), viewOf(w)], { call }),
      launchOf([viewOf(bufferOf(2))], { kernel: 'random_normal' }),
      launchOf([viewOf(bufferOf(2)), viewOf(x)]),
    ];
    const needs = dependenciesOf(launches, (buffer) =>
      buffer === w ? null : { memory: buffer === x ? 'x' : buffer, offset: 0 },
    );
    expect(needs).to.deep.equal([[], [0], [], [1], [2], [1]]);
  });

  it('a schedule is as long as its longest lane, and does not overlap what does not fit', () => {
    const task = (time: number, needs: number[] = [], share = 0): Task => ({
      ...{ time, needs, share },
      main: false,
    });
    // Two chains of three tasks that meet in one.
    const chains = [task(5), task(5, [0]), task(5), task(5, [2]), task(1, [1, 3])];
    expect(scheduled(chains, 0).end).to.equal(11);
    expect(scheduled(chains, 1)).to.deep.include({ end: 13 });
    expect(scheduled([task(4, [], 0.6), task(4, [], 0.5)], 1).end).to.equal(8);
    expect(scheduled([task(4, [], 0.5), task(4, [], 0.5)], 1).end).to.equal(6);
    const main = { ...task(4), main: true };
    expect(scheduled([main, main], 0)).to.deep.include({ lanes: [0, 0], end: 8 });
  });

  it('waits that follow from other waits are left out', () => {
    // 3 and 4 need 1 and 0, which its lane has waited for already.
    const { waits } = waitsOf([0, 0, 1, 1, 1], [[], [], [1], [0], [1]]);
    expect(waits).to.deep.equal([
      { before: 2, after: 1 },
      { before: 5, after: 4 },
    ]);
    expect(waitsOf([1, 0], [[], [0]]).waits).to.deep.equal([
      { before: 0, after: -1 },
      { before: 1, after: 0 },
    ]);
  });
});
