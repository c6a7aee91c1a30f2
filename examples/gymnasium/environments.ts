/** Environments for train(). The command line names them, and Python steps them. */
import {
  type EnvironmentSets,
  type GymnasiumOptions,
  gymnasium,
} from '../../src/entries/collect.ts';

const environments: EnvironmentSets = {
  open: ({ count, options }) => gymnasium(options as GymnasiumOptions).open({ count, options: {} }),
};
export default environments;
