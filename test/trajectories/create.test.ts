/**
 * Tests invalid options of TrajectoryBuffer.create(), and objects given to attach() that share()
 * did not return. The errors contain the rule and the values.
 */
import { expect } from 'chai';
import { RateLimiter, TrajectoryBuffer } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { type Refused, refused } from './refused.ts';

describe('TrajectoryBuffer.create() and attach()', () => {
  const obs = { shape: [2], observation: true } as const;
  const create = (more: object) => () =>
    TrajectoryBuffer.create({ capacity: 8, lanes: 2, fields: { obs }, ...more } as never);
  const named = (name: string, spec: unknown = { shape: [] }) =>
    create({ fields: { obs, [name]: spec } });

  it('create() throws for invalid options, and accepts field names such as constructor', () => {
    const reserved = [
      'rewards',
      'terminated',
      'truncated',
      'skip',
      'discounts',
      'steps',
      'ids',
      'weights',
      'mask',
    ];
    reserved.push('probabilities', 'priorities', 'learn', 'relabelled', 'nextAchieved');
    refused([
      ['lanes that do not divide', create({ lanes: 3 }), 'RangeError', 'got 8 for 3 lanes'],
      [
        'a place a lane',
        create({ lanes: 8 }),
        'RangeError',
        'at least two places each, got 8 for 8 lanes: 1 a lane',
      ],
      ['no lane', create({ lanes: 0 }), 'RangeError', 'lanes must be a whole number of at least 1'],
      [
        'lanes that are none',
        create({ lanes: '2' }),
        'TypeError',
        'lanes must be a number, got string (2)',
      ],
      ['no capacity', create({ capacity: undefined }), 'TypeError', 'capacity'],
      ['too much capacity', create({ capacity: 2 ** 32 }), 'RangeError', 'got 4294967296'],
      [
        'a limiter that is none',
        create({ limiter: {} }),
        'TypeError',
        'limiter must be a RateLimiter',
      ],
      ['no field', create({ fields: {} }), 'RangeError', 'fields must hold an observation'],
      ['no fields', create({ fields: undefined }), 'TypeError', 'fields must be an object'],
      ['a list of fields', create({ fields: [obs] }), 'TypeError', 'fields must be an object'],
      ['no observation', create({ fields: { a: { shape: [] } } }), 'RangeError', 'got a'],
      [
        'an observation that is not said',
        named('a', { shape: [], observation: 1 }),
        'TypeError',
        'fields.a.observation',
      ],
      ['an unknown option', create({ size: 3 }), 'TypeError', "unknown option 'size'"],
      [
        'one of a field',
        named('a', { shape: [], type: 'int8' }),
        'TypeError',
        "fields.a: unknown option 'type'",
      ],
      [
        'a dtype that is none',
        named('a', { shape: [], dtype: 'float23' }),
        'TypeError',
        "unknown dtype 'float23'",
      ],
      ['a shape that is none', named('a', { shape: [-1] }), 'RangeError', 'fields.a.shape[0]'],
      ['a field that is none', named('a', 3), 'TypeError', 'fields.a must be'],
      ['nothing as a field', named('a', null), 'TypeError', 'fields.a must be'],
      [
        'a name that is made',
        named('nextObs'),
        'RangeError',
        "fields.nextObs: observation 'obs' makes",
      ],
      ['another one', named('finalObs'), 'RangeError', "fields.finalObs: observation 'obs' makes"],
      ['names that make one', named('Obs', obs), 'RangeError', 'nextObs and finalObs'],
      ...reserved.map((name): Refused => [name, named(name), 'RangeError', `fields.${name}`]),
    ]);
    // A field may have the name of a property that every object inherits.
    const odd = {
      obs,
      constructor: { shape: [] },
      toString: { shape: [], observation: true },
    } as const;
    using buffer = TrajectoryBuffer.create({ capacity: 4, lanes: 1, fields: odd });
    using writer = buffer.writer();
    const one = Float32Array.of(1);
    const step = {
      rewards: one,
      terminated: [false],
      truncated: [false],
      obs: Float32Array.of(1, 2),
    };
    for (let i = 0; i < 2; i++)
      writer.add({ ...step, constructor: Float32Array.of(7), toString: one } as never);
    const drawn = buffer.sample({ view: buffer.transitions(), seed: 1, count: 1 });
    expect([...(drawn as unknown as { constructor: Float32Array }).constructor]).to.deep.equal([7]);
  });

  it('attach() throws for objects and memory that share() did not return', () => {
    using buffer = TrajectoryBuffer.create({ capacity: 24, lanes: 2, fields: { obs } });
    const shared = buffer.share();
    const attach = (given: unknown) => () => TrajectoryBuffer.attach(given as never);
    const memory = new SharedArrayBuffer(shared.memory.byteLength);
    const limiter = RateLimiter.create({ samplesPerInsert: 1, minSize: 1, errorBuffer: 9 }).share();
    refused([
      ['nothing', attach(undefined), 'TypeError', 'got undefined'],
      ['an object', attach({}), 'TypeError', 'needs the result of share(), got an object'],
      ['another kind', attach(limiter), 'TypeError', 'share()'],
      [
        'memory that is not shared',
        attach({ ...shared, memory: new ArrayBuffer(8) }),
        'TypeError',
        'share()',
      ],
      ['other lanes', attach({ ...shared, lanes: 4 }), 'TypeError', 'holds 2 lanes, 24 places'],
      [
        'another capacity',
        attach({ ...shared, capacity: 26 }),
        'TypeError',
        'its description says 2, 26',
      ],
      ['no layout', attach({ ...shared, layout: undefined }), 'TypeError', 'undefined'],
      ['empty memory', attach({ ...shared, memory }), 'TypeError', 'holds 0 lanes'],
    ]);
    new Uint32Array(memory, shared.offset, 5).set([1, 1, 2, shared.layout.placeBytes, 12]);
    refused([
      [
        'another magic',
        attach({ ...shared, memory }),
        'TypeError',
        'not a Hotslot trajectory buffer of version 1',
      ],
    ]);
    expect(
      refusal(() => new (TrajectoryBuffer as never as new () => unknown)()).message,
    ).to.include('not for callers');
  });
});
