/**
 * `node dist/test/golden.js [--kinds KIND,…] FILE…` checks the cases of golden files with the
 * library's public API. With --kinds it checks only cases of these kinds, or of kinds that begin with
 * such a name and a dot, and prints how many cases of other kinds it leaves out.
 *
 * It prints a line with the first difference for each case that fails, and ends with
 * `N cases, M failed`. It exits with 1 if a case fails, a kind is unknown or a file cannot be read.
 */
import { readFileSync } from 'node:fs';
import { Difference } from './golden/differences.ts';
import { type Contents, contentsOf } from './golden/kinds.ts';
import { closeTested } from './halo/places.ts';

const textOf = (error: unknown): string =>
  error instanceof Difference ? error.message : String(error);

const files = process.argv.slice(2);
let kinds: string[] | undefined;
if (files[0] === '--kinds') kinds = (files.splice(0, 2)[1] ?? '').split(',');

function contents(file: string): Contents | null {
  try {
    return contentsOf(JSON.parse(readFileSync(file, 'utf8')), kinds);
  } catch (error) {
    console.log(`${file}: ${textOf(error)}`);
    return null;
  }
}

if (files.length === 0) console.log('golden: name the files to check');
let clean = files.length > 0;
let checked = 0;
let failed = 0;
for (const file of files) {
  const found = contents(file);
  if (found === null || found.unknown.size > 0) clean = false;
  for (const [kind, count] of found?.unknown ?? [])
    console.log(`${file}: unknown kind '${kind}', ${count} not checked`);
  for (const [kind, count] of found?.left ?? [])
    console.log(`${file}: kind '${kind}' is left out, ${count} not checked`);
  for (const { name, check } of found?.cases ?? []) {
    checked++;
    try {
      await check();
    } catch (error) {
      failed++;
      console.log(`${file}: ${name}: ${textOf(error)}`);
    }
  }
}
closeTested();
console.log(`${checked} cases, ${failed} failed`);
process.exitCode = clean && failed === 0 ? 0 : 1;
