/** The environments that the command line names, stepped by Python; for train(). */
import {
  type EnvironmentSets,
  type GymnasiumOptions,
  gymnasium,
} from '../../src/entries/collect.ts';

const environments: EnvironmentSets = {
  open: ({ count, options }) => gymnasium(options as GymnasiumOptions).open({ count, options: {} }),
};
export default environments;
