/** Opens environments of Gymnasium, which a Python process steps. */
import type { EnvironmentSet, EnvironmentSets } from '../environment-set.ts';
import { type Spaces, spacesOf } from '../spaces.ts';
import { Child } from './child.ts';
import { Answer, type Fault, Request, spacesIn } from './frames.ts';
import { keywords } from './keywords.ts';
import { checkEnvironments, checkedGymnasium, type GymnasiumOptions } from './options.ts';
import { GymnasiumSteps } from './steps.ts';

/**
 * Returns an opener of Gymnasium environments, which a Python process steps. Pass it as
 * `vectorCollector({ make })`, or as the default export of a module for train(). Each collector
 * thread starts a process that makes the thread's environments and steps them together. The Python
 * needs numpy, and Gymnasium for environments named by id. Errors contain Python's output.
 *
 * @param options `id` or `entry`, `kwargs`, `vectorization`, `path`, `python` (default 'python3'),
 *   `timeout` in seconds (default 60) and `output` (default 'kept')
 * @throws {TypeError|RangeError} for an invalid option. The text names it
 * @example
 * export default gymnasium({ id: 'HalfCheetah-v5' });
 */
export function gymnasium(options: GymnasiumOptions): EnvironmentSets {
  const plan = checkedGymnasium(options);
  return {
    async open({ count, options: more }): Promise<EnvironmentSet> {
      checkEnvironments(count);
      const kwargs = keywords(plan.kwargs, more);
      const { child, greeting, ends } = await Child.start(plan, count, kwargs);
      try {
        if (greeting.count !== count)
          throw new Error(
            `${plan.name} has ${greeting.count} environments, but ${count} were requested`,
          );
        const spaces: Spaces = spacesOf(spacesIn(greeting, ends));
        const request = new Request(spaces, count);
        const answer = new Answer(spaces, count, greeting.autoreset === 'same-step');
        const ask = (operation: number) => {
          request.operation[0] = operation;
          child.exchange(request.bytes, answer.bytes);
          const [fault, masks] = answer.lengths as unknown as [number, number];
          if (masks > 0) child.read(answer.masksOf(masks));
          if (fault === 0) return null;
          const text = new TextDecoder().decode(child.read(new Uint8Array(fault)));
          return JSON.parse(text) as Fault;
        };
        return {
          count,
          spaces,
          play(hooks) {
            const { name } = plan;
            const { autoreset } = greeting;
            return new GymnasiumSteps({
              spaces,
              count,
              request,
              answer,
              ask,
              autoreset,
              hooks,
              name,
            });
          },
          close: () => child.close(),
        };
      } catch (error) {
        await child.close().catch(() => {});
        throw error;
      }
    },
  };
}
