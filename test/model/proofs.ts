/**
 * Declares the tests of a modelled protocol. It must hold in a setup, and the model must catch a
 * rule broken on purpose in the same setup.
 */
import { expect } from 'chai';
import { explore, type Model, type Outcome, shortest } from './checker.ts';

/** `it`, or one of the functions of test/rig/setting.ts. */
type Declare = (title: string, body: (this: Mocha.Context) => void) => unknown;

/** What every setup has. Each model adds its own options. */
interface AnySetup<Mutation> {
  readonly broken?: Mutation;
}

export interface Proofs<Mutation, Setup> {
  /**
   * Declares a test that no run of the setup breaks a rule. Use `itAll` for setups of more than
   * 500,000 states, and `itLong` for more than a million.
   */
  holds(setup: Setup, declare?: Declare): void;
  /**
   * Declares a test that the broken protocol is caught with `rule`, and that the same setup holds
   * unbroken. So the broken rule makes the difference.
   */
  caught(broken: Mutation, rule: string, setup: Setup, declare?: Declare): void;
  /** Returns the result of exploring the setup. */
  outcomeOf(setup: Setup): Outcome;
  /** Describes how much was explored so far. */
  explored(): string;
}

/** Explores each setup once, even if several tests need it. */
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
