/** Every interleaving of small cases of rows on their way to a device, and each of its rules broken in turn. */
import { expect } from 'chai';
import { itAll, setting } from '../rig/setting.ts';
import { explore } from './checker.ts';
import { type DeviceRowsMutation, type DeviceRowsSetup, deviceRowsProtocol } from './device-rows.ts';

/** As large as the buffer and smaller, spans of one row and of two, a guard that is used up and one that is not. */
const small: DeviceRowsSetup = { capacity: 3, places: 3, guard: 1, most: 1, rows: 5, ticks: 2 };
const cases: DeviceRowsSetup[] = [
  small,
  { ...small, death: true },
  ...setting<DeviceRowsSetup[]>({
    short: [],
    all: [
      { ...small, rows: 6, ticks: 3, death: true },
      { ...small, capacity: 2, places: 2, rows: 6, ticks: 3, death: true },
      { ...small, capacity: 4, places: 3, most: 2, rows: 6, death: true },
    ],
  }),
];
const broken: readonly [DeviceRowsMutation, Partial<DeviceRowsSetup>][] = [
  ['visible before the event', {}],
  ['reserved not looked at', {}],
  ['reserved looked at before the event', {}],
  ['the guard off by one', { capacity: 5, rows: 6 }],
  ['heads not looked at', { capacity: 5, rows: 6 }],
  ['only the newest head looked at', { capacity: 5, rows: 6 }],
  ['a launched head counts as spent', { capacity: 5, rows: 6 }],
  ['published before the copies are ordered', {}],
  ['low left behind a gap', { rows: 7 }],
  ['a head while a span goes over it', { rows: 7 }],
  ['where copies go known by what is published', { rows: 7, ticks: 3, death: true }],
  ['a head checked by what is visible later', { rows: 7 }],
  ['a head written anew before it is spent', { capacity: 5, rows: 6, ticks: 3 }],
  ['a successor behind what was only ordered', { death: true }],
  ['done before what was found', {}],
];

describe('rows on their way to a device', function () {
  this.timeout(setting({ short: 60_000, all: 300_000 }));

  for (const setup of cases) {
    const { capacity, places, guard, most, rows, ticks, death } = setup;
    const title = `${rows} rows through ${capacity} on the host and ${places} on the device, ${guard} guarded, ${most} a copy, ${ticks} ticks`;
    it(`${title}${death ? ', with a death' : ''}: no draw meets a copy, and every row comes or is told lost`, () => {
      const { states, ends, violation } = explore(deviceRowsProtocol(setup));
      expect(violation, JSON.stringify(violation)).to.equal(undefined);
      expect(Math.min(states, ends)).to.be.above(0);
    });
  }

  for (const [mutation, more] of broken)
    (mutation === 'where copies go known by what is published' ? itAll : it)(`${mutation} → found`, () => {
      const { violation } = explore(deviceRowsProtocol({ ...small, ...more, broken: mutation }));
      expect(violation?.rule, 'nothing was found').to.be.oneOf(['D1', 'deadlock']);
    });
});
