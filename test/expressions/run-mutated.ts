/** Runs mutated code in a process of its own. */
import { expect } from 'chai';
import { run } from '../cli/run-command.ts';
import type { Mutated } from './mutated.ts';

/** Returns the first difference that each mutation makes, or an empty text. */
export async function differencesOf(list: readonly Mutated[]): Promise<string[]> {
  const { stdout, stderr, code } = await run('test/expressions/mutated.js', [JSON.stringify(list)]);
  expect(stderr).to.equal('');
  expect(code).to.equal(0);
  const lines = stdout.split('\n').slice(0, -1);
  expect(lines).to.have.length(list.length);
  return lines;
}
