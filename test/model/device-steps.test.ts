/**
 * Checks the model of a view's steps that are copied to a device (device-steps.ts). The rules hold
 * in every interleaving of small cases. Each rule broken on purpose is caught.
 */
import { itLong } from '../rig/setting.ts';
import {
  type DeviceStepsMutation,
  type DeviceStepsSetup,
  deviceStepsProtocol,
} from './device-steps.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ places, steps, ticks, rows, death }: DeviceStepsSetup) =>
  `${steps} steps through ${places} places, ${ticks} ticks of ${rows} rows${death ? ', with a death' : ''}: each row is gathered as it was drawn`;
const { holds, caught } = proofsOf<DeviceStepsMutation, DeviceStepsSetup>(
  deviceStepsProtocol,
  inWords,
);

const small: DeviceStepsSetup = { places: 2, steps: 4, ticks: 2, rows: 2 };

describe('model of trajectory steps that are copied to a device', function () {
  this.timeout(300_000);

  holds(small);
  holds({ ...small, death: true });
  holds({ ...small, steps: 5, ticks: 3, death: true }, itLong);
  holds({ ...small, places: 3, steps: 6, ticks: 3, death: true }, itLong);

  caught('pack looks up a step by a torn note', 'M', small);
  caught('pack trusts a copy without checking `reserved` again', 'M', small);
  caught('a successor does not reset the list of held steps', 'M', { ...small, death: true });
  caught('the device stores new steps before it gathers rows', 'M', small);
  caught('the device gathers rows before the previous tick stores its steps', 'M', small);
  caught('pack keeps the older of two steps for one place', 'M', small);
  caught('pack marks a step as held when it draws the step', 'M', small);
});
