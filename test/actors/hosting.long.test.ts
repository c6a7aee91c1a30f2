/**
 * Tests `placement: 'auto'`, which hosts all roles in one thread during manual ticks and in two
 * threads during runs. The tests assert that no tick is lost or repeated when roles move, also if a
 * thread ends during the move.
 */
import { once } from 'node:events';
import { expect } from 'chai';
import { Hosted } from '../../actors/hosted.ts';
import { hostsIn, placementOf } from '../../src/engine/pipeline/options.ts';
import { internalsOf } from '../../src/engine/pipeline/replay-pipeline.ts';
import { Ring } from '../../src/engine/ring/ring.ts';
import { Hosting } from '../../src/engine/ring/role-bells.ts';
import { type Role, roles } from '../../src/engine/ring/slot.ts';
import type { ReplayPipeline, Tick } from '../../src/index.ts';
import { closeAll, counter, filled, pipeline, SAMPLE } from '../pipeline/fixture.ts';
import { workersOf } from '../pipeline/inside.ts';
import { itLonger, setting } from '../rig/setting.ts';

const threadsOf = (made: ReplayPipeline) =>
  workersOf(made).filter((worker) => worker !== undefined).length;
const hostOf = (made: ReplayPipeline, role: 'pack' | 'replay') => {
  const { bells, header } = internalsOf(made).parts.ring;
  return bells.threads.find((thread) => bells.hostedBy(thread, header.hosting).includes(role));
};
const byHand = async (made: ReplayPipeline, tick: number) => {
  const batch = await made.sampleLargeBatch(tick, SAMPLE);
  const rows = (await batch?.obs?.toArray())?.slice();
  made.afterTick();
  return rows;
};

/** Creates two threads that share a ring. Their actors only record which role they have. */
function twoThreads() {
  const ring = Ring.create({
    depth: 2,
    hosts: [0, 1, 1, 1],
    manualHosts: [0, 0, 0, 0],
    journalCapacity: 64,
  });
  const open = new Map<Role, number>();
  const threads = [0, 1].map(
    (thread) =>
      new Hosted(ring, { thread, longPack: false }, (hosted) =>
        hosted.map((role) => {
          expect(open.get(role), `${role} has another host`).to.equal(undefined);
          open.set(role, thread);
          return { role, slot: 0, work: () => 0, close: () => void open.delete(role) };
        }),
      ),
  );
  const looks = (thread: number) => (threads[thread] as Hosted).follow();
  return { ring, looks, hosts: () => roles.map((role) => open.get(role)) };
}

describe('roles that move between threads', () => {
  afterEach(closeAll);

  it('have at most one host in every order of 8 changes, and the expected host at the end', () => {
    for (let order = 0; order < 3 ** 8; order++) {
      const { ring, looks, hosts } = twoThreads();
      looks(0);
      looks(1);
      for (let rest = order, i = 0; i < 8; i++, rest = Math.floor(rest / 3)) {
        if (rest % 3 === 2) ring.header.host((1 - ring.header.hosting) as Hosting);
        else looks(rest % 3);
      }
      for (const thread of [0, 1, 0]) looks(thread);
      expect(hosts()).to.deep.equal(
        ring.header.hosting === Hosting.manual ? [0, 0, 0, 0] : [0, 1, 1, 1],
      );
    }
  });

  it("are on one thread in manual ticks with 'auto', and keep their threads in a group or list", () => {
    const { threads, manual } = placementOf('auto');
    expect(hostsIn(manual)).to.deep.equal([0, 0, 0, 0]);
    expect(manual.length).to.equal(threads.length);
    const grouped = placementOf('auto', { grouped: true });
    expect(grouped.manual).to.deep.equal(grouped.threads);
    const asked = placementOf([
      ['pack', 'poll'],
      ['submit', 'replay'],
    ]);
    expect(hostsIn(asked.manual)).to.deep.equal([0, 1, 0, 1]);
  });

  it("make the same batches and updates in mixed manual ticks and runs as with 'inline'", async () => {
    const told = async (placement: 'auto' | 'inline') => {
      const made = await pipeline({ placement });
      const update = counter(made);
      const seen: unknown[] = [];
      let applied = 0;
      for (let tick = 0; tick < 40; ) {
        for (const end = tick + 3; tick < end; tick++) seen.push(await byHand(made, tick));
        const { ticks, scalars } = await made.run({ ticks: 1 + (tick % 5) });
        seen.push(ticks, scalars.count);
        tick += ticks;
        applied += ticks;
      }
      expect(await update.count.toArray()).to.deep.equal(Float32Array.of(applied));
      update.close();
      return seen;
    };
    expect(await told('auto')).to.deep.equal(await told('inline'));
  });

  it('are on the first thread in manual ticks, and replay is on the last thread in runs', async () => {
    const made = await pipeline({ placement: 'auto' });
    const update = counter(made);
    const last = threadsOf(made) - 1;
    await byHand(made, 0);
    expect(hostOf(made, 'replay')).to.equal(0);
    for (let run = 0; run < 2; run++) {
      await made.run({ ticks: 2 });
      expect(hostOf(made, 'replay')).to.equal(last);
      expect(hostOf(made, 'pack')).to.equal(0);
    }
    await byHand(made, 5);
    expect(hostOf(made, 'replay')).to.equal(0);
    update.close();
  });

  itLonger(
    'Slot-8, Slot-10: every update is applied exactly once if a thread ends during a move',
    async () => {
      const rounds = setting({ short: 6, all: 12, long: 200 });
      const made = await pipeline({
        placement: 'auto',
        restart: rounds,
        buffer: filled(64, 64),
        depth: 3,
      });
      const update = counter(made);
      const told: Tick[] = [];
      made.on('tick', (each) => told.push(each));
      const ofRuns: number[] = [];
      let tick = 0;
      for (let round = 0; round < rounds; round++) {
        const worker = workersOf(made)[round % threadsOf(made)];
        const again = once(made as never, 'restart');
        // The thread ends before the roles move to the run, when they may move, or when they are to
        // move back after the run.
        const moment = (round >> 1) % 3;
        if (moment === 0) void worker?.terminate();
        const running = made.run({ ticks: 7 });
        if (moment === 1) void worker?.terminate();
        await running;
        for (const end = tick + 7; tick < end; tick++) ofRuns.push(tick);
        made.startPrepare(tick, SAMPLE);
        if (moment === 2) void worker?.terminate();
        await byHand(made, tick++);
        await again;
      }
      const counts = new Map(told.map(({ tickId, scalars }) => [tickId, scalars.count]));
      expect(ofRuns.map((id) => counts.get(id))).to.deep.equal(ofRuns.map((_, i) => i + 1));
      expect(await update.count.toArray()).to.deep.equal(Float32Array.of(ofRuns.length));
      update.close();
    },
  );

  it('call away() and back() around pack only if longPack is set and poll shares the thread', () => {
    const scan = (longPack: boolean, hosts: number[]) => {
      const ring = Ring.create({ depth: 2, hosts, journalCapacity: 64 });
      const told: string[] = [];
      const tells = (what: string) => () => void told.push(what);
      const make = (role: Role) => ({
        role,
        slot: 0,
        close: () => {},
        away: tells('away'),
        back: tells('back'),
        work: () => told.push(role),
      });
      const hosted = new Hosted(ring, { thread: 0, longPack }, (wanted) => wanted.map(make));
      hosted.follow();
      hosted.work();
      return told;
    };
    expect(scan(true, [0, 0, 0, 0])).to.deep.equal([
      'away',
      'pack',
      'back',
      'submit',
      'poll',
      'replay',
    ]);
    expect(scan(false, [0, 0, 0, 0])).to.deep.equal(['pack', 'submit', 'poll', 'replay']);
    expect(scan(true, [0, 1, 1, 1])).to.deep.equal(['pack']);
  });
});
