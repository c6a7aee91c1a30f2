/** Pins the nodes of updates of the built-in learners on the CPU device, and what their plans need. */
import { expect } from 'chai';
import { openDevice } from '../../src/index.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';
import { bitsOf, builtIn, counted } from './nodes.ts';

/** By learner: nodes of a captured update, and launches, depth and KiB of its plan. */
const wanted: Record<string, readonly number[]> = {
  'double DQN': [17, 18, 14, 210],
  'double DQN with clipping': [18, 18, 14, 210],
  'dueling DQN': [41, 22, 38, 212],
  C51: [23, 24, 18, 273],
  'QR-DQN': [32, 33, 27, 4068],
  'discrete SAC': [72, 76, 49, 317],
  SAC: [66, 70, 48, 1858],
  TD3: [88, 55, 35, 1571],
  TQC: [82, 84, 52, 8657],
  IQL: [63, 66, 37, 2361],
  CQL: [120, 122, 62, 42504],
  FastSAC: [147, 151, 96, 45417],
};

describe('updates of the built-in learners', () => {
  for (const name of Object.keys(builtIn))
    it(`${name} has few nodes`, async function () {
      if (!ON_HOST) this.skip(); // test/drivers has the nodes on other devices
      using device = openDevice(TESTED);
      expect(await counted(device, name)).to.deep.equal(wanted[name]);
    });

  // An update that records launches its sums and counts at their places.
  for (const name of Object.keys(builtIn))
    it(`${name}: a record changes no bits`, async () => {
      using device = openDevice(TESTED);
      const [without, recorded] = [
        await bitsOf(device, name, false),
        await bitsOf(device, name, true),
      ];
      expect(recorded === without).to.equal(true);
    });
});
