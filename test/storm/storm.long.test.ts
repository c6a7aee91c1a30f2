/**
 * Tests storms over a whole training, for 40 seconds or, in the longest runs, an hour. Threads are
 * ended and frozen, the disk fills, the process is killed. No data may be lost, duplicated or torn,
 * and nothing may hang or leak. The other tests show that the storm's oracle reports such errors.
 */
import { expect } from 'chai';
import { TrajectoryBuffer } from '../../src/index.ts';
import { needServer } from '../remote/server.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { storm } from './director.ts';
import { BODY, bodyOf, endsAt, laneCounts, prioOf, stepFields, terminates } from './numbers.ts';
import { LaneScan, RowScan, stormRows, TickScan } from './oracle.ts';
import { scheduleOf } from './schedule.ts';

const SECONDS = setting({ short: 0, all: 40, long: 3600 });
const FAULTS = setting({ short: 0, all: 60, long: 10_000 });
/** With this seed, 40 seconds have each kind of fault, also a close and a kill in the middle. */
const STORM_SEED = setting({ short: 0, all: 21, long: 1 });

describe('storm', () => {
  it('scheduleOf() returns the same faults for the same seed, and faults of every kind', () => {
    const hour = scheduleOf(7, 3600);
    expect(scheduleOf(7, 3600)).to.deep.equal(hour);
    expect(scheduleOf(8, 3600)).to.not.deep.equal(hour);
    expect(hour.length).to.be.within(10_000, 11_500);
    const kinds = new Map<string, number>();
    for (const { kind } of hour) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    expect([...kinds.keys()].sort()).to.deep.equal(
      [
        'client',
        'clock',
        'disk',
        'freeze',
        'host',
        'kill',
        'life',
        'server',
        'stop',
        'terminate',
      ].sort(),
    );
    for (const [kind, count] of kinds) expect(count, kind).to.be.at.least(40);
    expect(scheduleOf(7, 600, { drivers: true }).some(({ kind }) => kind === 'driver')).to.equal(
      true,
    );
  });

  /** Returns what the oracle reports about rows with these numbers, which one worker made. */
  const ofRows = (
    numbers: readonly number[],
    spoil?: (body: Float32Array, value: Float64Array) => void,
    { restored = 0, cut = 0 } = {},
  ) => {
    const said: string[] = [];
    const buffer = stormRows(100);
    const value = Float64Array.from(numbers.flatMap((number) => [5, 1, number, 3]));
    const body = Float32Array.from({ length: BODY * numbers.length }, (_, i) =>
      bodyOf(1, numbers[Math.floor(i / BODY)]!),
    );
    spoil?.(body, value);
    if (restored > 0)
      buffer.add({
        value: value.subarray(0, 4 * restored),
        body: body.subarray(0, BODY * restored),
      });
    const scan = new RowScan(buffer, (text) => said.push(text), cut);
    buffer.add({ value: value.subarray(4 * restored), body: body.subarray(BODY * restored) });
    scan.look(true);
    return { said, gaps: scan.gaps, seen: scan.seen };
  };

  it('RowScan reports duplicate, missing and torn rows, and torn weights', () => {
    expect(ofRows([0, 1, 2, 3])).to.deep.equal({ said: [], gaps: 0, seen: 4 });
    expect(ofRows([0, 1, 1, 2]).said).to.deep.equal(['row 1 of 5/1 behind 1: doubled']);
    expect(ofRows([0, 1, 5, 6])).to.include({ gaps: 3 });
    // A gap that an earlier life has counted is ignored once, at the first row after the restored
    // rows.
    const restored = 2;
    expect(ofRows([0, 1, 5, 6], undefined, { restored })).to.include({ gaps: 3 });
    expect(ofRows([0, 1, 5, 6, 9], undefined, { restored, cut: 1 })).to.include({ gaps: 2 });
    expect(ofRows([0, 1, 2, 6], undefined, { restored, cut: 1 })).to.include({ gaps: 3 });
    expect(ofRows([0, 1], (body) => body.fill(0, BODY + 3, BODY + 4)).said).to.deep.equal([
      'row 1 of 5/1 behind 0 is torn',
    ]);
    expect(ofRows([0], (_, value) => value.fill(-1, 3)).said[0]).to.match(/weights that were torn/);
  });

  /** Returns what the oracle reports about a lane with these steps. */
  const ofSteps = (numbers: readonly number[], spoil: { over?: number; body?: number } = {}) => {
    const said: string[] = [];
    const buffer = TrajectoryBuffer.create({ capacity: 100, lanes: 1, fields: stepFields });
    const counts = laneCounts(buffer.share(), 1);
    const scan = new LaneScan(buffer, counts, (text) => said.push(text));
    const writer = buffer.writer();
    for (const number of numbers) {
      const ends = endsAt(0, number) && number !== spoil.over;
      const obs = (final: number) => Float32Array.of(0, 0, number, final);
      const body = new Float32Array(BODY).fill(bodyOf(0, number));
      if (number === spoil.body) body[BODY - 1]!++;
      writer.add({
        obs: obs(0),
        finalObs: obs(1),
        body,
        prio: Float32Array.of(prioOf(0, number)),
        rewards: Float32Array.of(1),
        terminated: [ends && terminates(number)],
        truncated: [ends && !terminates(number)],
      });
    }
    scan.look(true);
    return said;
  };

  it('LaneScan reports duplicate, lost and torn steps, and a missing final observation', () => {
    const all = Array.from({ length: 30 }, (_, i) => i);
    const end = all.find((number) => endsAt(0, number))!;
    expect(ofSteps(all)).to.deep.equal([]);
    expect(ofSteps(all.flatMap((n) => (n === 3 ? [3, 3] : [n])))[0]).to.match(/doubled/);
    expect(ofSteps(all.filter((n) => n !== 3))[0]).to.match(/lost/);
    expect(ofSteps(all, { body: 7 })).to.deep.equal(['lane 0: step 7 behind 6 is torn']);
    expect(ofSteps(all, { over: end })[0]).to.match(/a final observation is missing/);
  });

  it('TickScan reports lost ticks, ticks that are applied twice, and torn rows', () => {
    const ofTicks = (...ticks: [tickId: number, count: number, torn?: number][]) => {
      const said: string[] = [];
      const scan = new TickScan((text) => said.push(text));
      for (const [tickId, count, torn = 0] of ticks)
        scan.tick({ tickId, scalars: { count, torn } });
      return said;
    };
    expect(ofTicks([0, 1], [1, 2], [2, 3])).to.deep.equal([]);
    expect(ofTicks([0, 1], [2, 3])).to.deep.equal(['tick 2 was told where 1 was next']);
    expect(ofTicks([0, 1], [1, 3])).to.deep.equal(['tick 1 is update 3']);
    expect(ofTicks([0, 1, 4])).to.deep.equal(['tick 0 had a torn row (4)']);
  });

  if (SECONDS > 0)
    itLonger(
      `storm() finds no lost, duplicate or torn data, no hang and no leak in ${SECONDS} s`,
      async function () {
        needServer(this);
        this.timeout(SECONDS * 3000);
        const { faults, facts, wrong } = await storm({ seed: STORM_SEED, seconds: SECONDS });
        expect(wrong).to.deep.equal([]);
        const all = Object.values(faults).reduce((sum, count) => sum + count, 0);
        expect(all).to.be.at.least(FAULTS);
        for (const kind of [
          'terminate',
          'freeze',
          'kill',
          'life',
          'disk',
          'server',
          'host',
        ] as const)
          expect(faults[kind], kind).to.be.at.least(1);
        expect(facts['steps.ticks'], 'ticks').to.be.at.least(SECONDS * 10);
        expect(facts['rows.rows'], 'rows received').to.be.at.least(SECONDS * 50);
        this.test!.title += `: ${JSON.stringify({ faults, facts })}`;
      },
    );
});
