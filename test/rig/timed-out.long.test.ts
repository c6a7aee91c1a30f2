/**
 * Tests the error of a test that times out: it lists the open pipelines, learner groups and
 * collector pools.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { itAll } from '../rig/setting.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

interface Report {
  failures: { fullTitle: string; err: { message: string; stack: string } }[];
}

/** Returns the failures of hangs.ts, which runs with the same options as in run.ts. */
function failuresOf(): Map<string, string> {
  const mocha = [
    'node_modules/mocha/bin/mocha.js',
    '--parallel',
    '--jobs',
    '2',
    '--require',
    'dist/test/rig/told-whole.js',
  ];
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [...mocha, '--reporter', 'json', 'dist/test/rig/hangs.js'],
    {
      cwd: root,
      encoding: 'utf8',
      timeout: 500_000,
    },
  );
  if (!stdout.includes('{\n')) throw new Error(`no report: ${stderr}\n${stdout}`);
  const { failures } = JSON.parse(stdout.slice(stdout.indexOf('{\n'))) as Report;
  return new Map(
    failures.map(({ fullTitle, err }) => {
      // A reporter prints the stack, so the stack must begin with the whole message.
      expect(err.stack)
        .to.match(/^(Assertion)?Error: /)
        .and.include(`: ${err.message}\n`);
      return [fullTitle, err.message];
    }),
  );
}

/** Returns the classes that an error lists, in order. */
const listed = (text: string) =>
  [...text.matchAll(/^(?:\{ | {2})([A-Z]\w+): /gm)].map(([, name]) => name);

describe('error of a test or hook that times out', function () {
  this.timeout(600_000);

  itAll('lists only the open pipelines, learner groups and collector pools', () => {
    const failures = failuresOf();
    expect([...failures.keys()]).to.deep.equal([
      'hangs an assertion fails',
      'hangs with a pipeline a test times out',
      'hangs with a group and a pool within "before all" hook for "a hook times out"',
    ]);
    const [asserted, test, hook] = [...failures.values()] as [string, string, string];
    expect(asserted).to.include('as it must').and.not.include('open when');
    for (const text of [test, hook]) expect(text).to.match(/^Timeout of 1ms exceeded\./);
    expect(listed(test)).to.deep.equal(['ReplayPipeline']);
    const slots = [0, 1]
      .map((sequence) => `{ state: 'Free', tick: 0, sequence: ${sequence} }`)
      .join(', ');
    expect(test)
      .to.include(`slots: [ ${slots} ],`)
      .and.include("waitingFor: 'rows: 0 were added so far',")
      .and.include("mode: 'autonomous',")
      .and.include("gate: 'rows',")
      .and.include("[ 'running', 'pack' ]");
    expect(listed(hook)).to.deep.equal(['LearnerGroup', 'CollectorPool']);
    expect(hook)
      .to.include("waitingFor: 'rank 1, which has not come to exchange 1 of the learner group'")
      .and.match(/CollectorPool: \{ steps: \d+, .*threads: 2 \}/);
  });
});
