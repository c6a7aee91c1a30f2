/** Every interleaving of small cases of a view's steps on their way to a device, and each of its rules broken in turn. */
import { expect } from 'chai';
import { setting } from '../rig/setting.ts';
import { explore } from './checker.ts';
import { type DeviceStepsMutation, type DeviceStepsSetup, deviceStepsProtocol } from './device-steps.ts';

const small: DeviceStepsSetup = { places: 2, steps: 4, ticks: 2, rows: 2 };
const cases: DeviceStepsSetup[] = [
  small,
  { ...small, death: true },
  ...setting<DeviceStepsSetup[]>({
    short: [],
    all: [{ ...small, steps: 5, ticks: 3, death: true }],
    long: [
      { ...small, steps: 5, ticks: 3, death: true },
      { ...small, places: 3, steps: 6, ticks: 3, death: true },
    ],
  }),
];
const broken: readonly [DeviceStepsMutation, Partial<DeviceStepsSetup>][] = [
  ['torn notes looked up', {}],
  ['a copy believed without a second look', {}],
  ['a successor that forgets nothing', { death: true }],
  ['put before it is gathered', {}],
  ['gathered before the tick before it has put', {}],
  ['of two laps the older one stays', {}],
  ['held as soon as it is drawn', {}],
];

describe("a view's steps on their way to a device", function () {
  this.timeout(setting({ short: 60_000, all: 300_000 }));

  for (const setup of cases) {
    const { places, steps, ticks, rows, death } = setup;
    const title = `${steps} steps through ${places} places, ${ticks} ticks of ${rows} rows`;
    it(`${title}${death ? ', with a death' : ''}: each row is gathered as it was drawn`, () => {
      const { states, ends, violation } = explore(deviceStepsProtocol(setup));
      expect(violation, JSON.stringify(violation)).to.equal(undefined);
      expect(Math.min(states, ends)).to.be.above(0);
    });
  }

  for (const [mutation, more] of broken)
    it(`${mutation} → found`, () => {
      const { violation } = explore(deviceStepsProtocol({ ...small, ...more, broken: mutation }));
      expect(violation?.rule, 'nothing was found').to.equal('M');
    });
});
