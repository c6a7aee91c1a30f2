/**
 * Tests the cost of a tick, and fails if a cost is worse than in known.json. The costs do not
 * depend on how busy the machine is. They are native calls, copied bytes, driver calls, bytes of
 * the JavaScript heap, and instructions.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { environmentOf, type Mode, missing, modes } from '../drivers/software.ts';
import { itAll, itLong } from '../rig/setting.ts';
import { compiled, countInstructions, missingCallgrind } from './instructions.ts';
import { type Costs, changes, known, RENEW, renew, renewing } from './table.ts';

const probe = fileURLToPath(new URL('./probe.js', import.meta.url));
const threads = fileURLToPath(new URL('./threads.js', import.meta.url));

/**
 * Runs the probe in its own process and returns its costs. Without a mode it uses the CPU device.
 */
function probed(args: readonly string[], mode: Mode | null = null, program = probe): Costs {
  // The young generation is large enough that nothing is collected between two measurements.
  const young = ['--expose-gc', '--min-semi-space-size=64', '--max-semi-space-size=64'];
  const env = mode ? environmentOf(mode) : { ...process.env, HOTSLOT_TEST_DEVICE: 'host:0' };
  const done = spawnSync(process.execPath, [...young, program, ...args], {
    encoding: 'utf8',
    env,
    timeout: 120_000,
  });
  if (done.status !== 0)
    throw new Error(`the probe ended with ${done.status ?? done.signal}:\n${done.stderr}`);
  return JSON.parse(done.stdout) as Costs;
}

/**
 * Compares costs with known.json. With `mayBeLess`, lower costs are only printed, because they may
 * be chance.
 */
function compare(part: string, costs: Costs, tolerance: number, mayBeLess = false): void {
  if (renewing()) {
    renew(part, costs);
    return;
  }
  const { worse, better } = changes(known()[part] ?? {}, costs, tolerance);
  if (mayBeLess && better.length > 0) console.log(`      ${part}, better: ${better.join('; ')}`);
  const lines = mayBeLess ? worse : [...worse, ...better];
  expect(lines.join('\n'), `${part}; if the change is intended: ${RENEW}`).to.equal('');
}

/** Skips the test and prints the reason, if there is one. */
function leave(context: Mocha.Context, why: string | null): void {
  if (why === null) return;
  console.log(`      skipped: ${why}`);
  context.skip();
}

describe('cost of a tick', function () {
  this.timeout(300_000);

  it('changes() lists worse, better and new costs beyond the tolerance', () => {
    const before = { calls: { copy: 2, record: 4 }, bytes: { copy: 100 } };
    expect(changes(before, before, 0)).to.deep.equal({ worse: [], better: [] });
    expect(
      changes(before, { calls: { copy: 3, record: 4, wait: 1 }, bytes: { copy: 100 } }, 0),
    ).to.deep.equal({
      worse: ['calls, copy: 3, was 2', 'calls, wait: 1, was 0'],
      better: [],
    });
    expect(changes(before, { ...before, bytes: { copy: 102 } }, 0.03)).to.deep.equal({
      worse: [],
      better: [],
    });
    expect(changes(before, { ...before, bytes: { copy: 90 } }, 0.03)).to.deep.equal({
      worse: [],
      better: ['bytes, copy: 90, was 100'],
    });
  });

  /**
   * HIP's tests run only in the longest runs, because the same code makes the calls of CUDA and
   * HIP.
   */
  const ofFamily = (mode: Mode) => (mode === modes.hip ? itLong : itAll);

  for (const kind of ['rows', 'prioritized'])
    itAll(`native calls and copied bytes match known.json: ${kind}`, () => {
      compare(`calls of a tick, ${kind}`, probed(['calls', kind]), 0);
    });

  for (const mode of [modes.cuda13, modes.hip, modes.ze] as const)
    ofFamily(mode)(`driver calls match known.json: ${mode.name}`, function () {
      leave(this, missing(mode));
      compare(`calls of a tick, ${mode.name}`, probed(['calls', 'rows'], mode), 0);
    });

  for (const mode of [modes.cuda13, modes.hip, modes.ze] as const)
    ofFamily(mode)(`driver calls of actors in threads match known.json: ${mode.name}`, function () {
      leave(this, missing(mode));
      compare(`calls of a tick in threads, ${mode.name}`, probed([], mode, threads), 0);
    });

  for (const kind of ['rows', 'prioritized'])
    itAll(`heap bytes are at most 15% above known.json: ${kind}`, function () {
      // Heap bytes depend on what the engine compiles and, on a busy machine, when. Each engine
      // therefore has its own table, with a tolerance.
      const engine = `V8 ${process.versions.v8.split('.').slice(0, 2).join('.')}`;
      const part = `heap of a tick, ${kind}, ${engine}`;
      if (!renewing() && !(part in known()))
        leave(this, `nothing is known for ${engine}: ${RENEW}`);
      compare(
        part,
        { bytes: probed(['heap', kind]) as unknown as Record<string, number> },
        0.15,
        true,
      );
    });

  itAll('instructions of native code are within 3% of known.json', function () {
    leave(this, missingCallgrind());
    const part = `instructions, ${compiled()}`;
    if (!renewing() && !(part in known()))
      leave(this, `nothing is known for ${compiled()}: ${RENEW}`);
    compare(part, { pieces: countInstructions() }, 0.03);
  });
});
