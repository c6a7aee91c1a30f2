/**
 * Tests of a modelled protocol: it holds in a setup, and a rule that is broken on purpose is caught
 * there.
 */
import { expect } from 'chai';
import { explore, type Model, type Outcome, shortest } from './checker.ts';

/** `it`, or one of test/rig/setting.ts. */
type Declare = (title: string, body: (this: Mocha.Context) => void) => unknown;

/** What every setup may say; a model has its own words besides. */
interface AnySetup<Mutation> {
  readonly broken?: Mutation;
}

export interface Proofs<Mutation, Setup> {
  /**
   * A test that no run of the setup breaks a rule; one of more than half a million states is for
   * `itAll`, of more than a million for `itLong`.
   */
  holds(setup: Setup, declare?: Declare): void;
  /**
   * A test that the broken protocol is caught, and the same setup unbroken holds: the rule is what
   * makes the difference.
   */
  caught(broken: Mutation, rule: string, setup: Setup, declare?: Declare): void;
  /** What exploring the setup came to. */
  outcomeOf(setup: Setup): Outcome;
  /** How much was explored so far. */
  explored(): string;
}

/** Each setup is explored once, however many tests ask. */
export function proofsOf<Mutation extends string, Setup extends AnySetup<Mutation>>(
  protocol: (setup: Setup) => Model,
  inWords: (setup: Setup) => string,
): Proofs<Mutation, Setup> {
  const outcomes = new Map<string, Outcome>();

  function outcomeOf(setup: Setup): Outcome {
    const key = JSON.stringify(Object.entries({ faults: [], grain: 'access', ...setup }).sort());
    const outcome = outcomes.get(key) ?? explore(protocol(setup));
    outcomes.set(key, outcome);
    return outcome;
  }

  return {
    outcomeOf,
    explored() {
      const states = [...outcomes.values()].reduce((sum, outcome) => sum + outcome.states, 0);
      return `${states} states in ${outcomes.size} setups`;
    },
    holds(setup, declare = it) {
      declare(inWords(setup), function () {
        const { states, ends, violation } = outcomeOf(setup);
        if (violation) {
          const trace = shortest(protocol(setup)) ?? violation.trace;
          expect.fail(`${violation.rule}: ${violation.text}\n${trace.join('\n')}`);
        }
        expect(ends).to.be.greaterThan(0);
        this.test!.title += `: ${states} states`;
      });
    },
    caught(broken, rule, setup, declare = it) {
      declare(`${broken} → ${rule}`, () => {
        const { violation } = outcomeOf({ ...setup, broken });
        expect(violation?.rule).to.equal(rule);
        expect(violation?.trace).to.not.be.empty;
        expect(outcomeOf(setup).violation).to.equal(undefined);
      });
    },
  };
}
