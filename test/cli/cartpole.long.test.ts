/**
 * Tests the CartPole example's command line: output, exit codes and Ctrl-C. The process must end by
 * itself each time.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { readFolder } from '../monitor/event-reader.ts';
import { itAll } from '../rig/setting.ts';
import { run, runEach } from './run-command.ts';

const MAIN = 'examples/cartpole-dqn/main.js';

interface TraceEvent {
  ph: string;
  tid: number;
  name: string;
  ts: number;
  dur: number;
  args: { name: string; tick: number };
}

describe('examples/cartpole-dqn', () => {
  itAll(
    'reaches a mean return of 475 over 100 greedy episodes, and exits with code 0',
    async function () {
      this.timeout(300_000);
      const { code, lines, stderr } = await run(MAIN, ['--json', '--max-seconds', '120']);
      expect(stderr).to.equal('');
      const objects = lines.map((line) => JSON.parse(line));
      const summary = objects.pop();
      expect(summary).to.include({ solved: true, seed: 1, device: 'host:0', interrupted: false });
      expect(summary.meanReturn).to.be.within(475, 500);
      expect(summary.seconds).to.be.greaterThan(0);
      expect(summary.stages.pack.p50).to.be.greaterThan(0);
      expect(code).to.equal(0);
      expect(objects[0]).to.include({ event: 'start', device: 'host:0' });
      const events = objects.map(({ event }) => event);
      expect(events.slice(1).every((event) => event === 'progress')).to.equal(true);
    },
  );

  itAll(
    'exits with code 1 and prints a table of stages when it is not solved within its ticks',
    async () => {
      const { code, stdout } = await run(MAIN, ['--ticks', '40']);
      expect(code).to.equal(1);
      expect(stdout).to.match(/not solved in .* on host:0: mean return \d/);
      expect(stdout).to.match(/40 ticks, 320 updates/);
      expect(stdout).to.match(/pack +\d/);
      expect(stdout).to.not.include('\x1b');
    },
  );

  itAll('prints the summary so far and exits with code 130 on Ctrl-C', async () => {
    const { code, lines, stderr } = await run(MAIN, ['--json', '--seed', '2'], {
      interruptAt: /"start"/,
    });
    expect(stderr).to.equal('');
    expect(JSON.parse(lines[lines.length - 1] as string)).to.include({
      interrupted: true,
      seed: 2,
    });
    expect(code).to.equal(130);
  });

  itAll(
    '--trace writes a Chrome trace with one lane per actor and one span per stage and tick',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'hotslot-'));
      try {
        const file = join(folder, 'trace.json');
        await run(MAIN, ['--quiet', '--ticks', '12', '--trace', file]);
        const events: TraceEvent[] = JSON.parse(readFileSync(file, 'utf8')).traceEvents;
        const named = events.filter(({ name }) => name === 'thread_name');
        const lanes = new Map(named.map(({ args, tid }) => [args.name, tid]));
        expect([...lanes.keys()]).to.include.members(['pack', 'submit', 'poll', 'replay']);
        const spans = events.filter(({ ph }) => ph === 'X');
        for (const { ts, dur, tid } of spans) {
          expect(ts).to.be.a('number');
          expect(dur).to.be.at.least(0);
          expect([...lanes.values()]).to.include(tid);
        }
        const of = (lane: string) => spans.filter(({ tid }) => tid === lanes.get(lane));
        const ticks = of('pack').map(({ args }) => args.tick);
        expect(ticks).to.deep.equal(Array.from({ length: 12 }, (_, tick) => tick));
        expect(of('replay')).to.have.length(12);
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );

  itAll(
    '--log writes curves of ticks and episodes, and warns if its folder cannot be written',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'hotslot-'));
      try {
        const { stderr } = await run(MAIN, [
          '--quiet',
          '--ticks',
          '400',
          '--log',
          join(folder, 'curves'),
        ]);
        expect(stderr).to.equal('');
        const read = readFolder(join(folder, 'curves'));
        for (const tag of [
          'train/loss',
          'train/meanQ',
          'speed/updates_per_second',
          'episodes/return',
        ])
          expect([...new Set(read.map((each) => each.tag))]).to.include(tag);
        expect(read.filter(({ tag }) => tag === 'train/loss').at(-1)?.step).to.equal(399);
        const refused = await run(MAIN, ['--quiet', '--ticks', '30', '--log', '/dev/null/curves']);
        expect([refused.code, refused.stderr]).to.satisfy(
          ([code, said]: [number, string]) =>
            code === 1 && /MonitorWarning: tensorBoard cannot write to /.test(said),
        );
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );

  itAll('--help names the command that repeats every bit', async () => {
    const { code, stdout } = await run(MAIN, ['--help']);
    expect(code).to.equal(0);
    expect(stdout).to.match(/npm run train --\s+--deterministic repeats every\s+bit/);
  });

  itAll('--replay and --n-step appear in the first line and in the summary', async () => {
    const args = ['--ticks', '20', '--replay', 'prioritized', '--n-step', '3'];
    const [json, plain] = await Promise.all([run(MAIN, ['--json', ...args]), run(MAIN, args)]);
    expect([json.code, json.stderr]).to.deep.equal([1, '']);
    const objects = json.lines.map((line) => JSON.parse(line));
    for (const object of [objects[0], objects.at(-1)])
      expect(object).to.include({ replay: 'prioritized', nStep: 3 });
    expect(plain.lines[0]).to.match(
      /^DQN on CartPole-v1: seed 1, host:0, .*, prioritized replay of 3-step rows$/,
    );
  });

  const misuse: [string[], RegExp][] = [
    [['--sed', '3'], /unknown option '--sed'/],
    [['--seed', 'three'], /--seed must be a whole number of at least 0, got 'three'/],
    [['--ticks', '0'], /--ticks must be a whole number of at least 1, got '0'/],
    [['--max-seconds=-1'], /--max-seconds must be a number above 0, got '-1'/],
    [['--max-seconds', '-1'], /--max-seconds must be a number above 0, got '-1'; see --help/],
    [['--placement', 'somewhere'], /--placement must be auto, inline/],
    [['--replay', 'hindsight'], /--replay must be uniform or prioritized, got 'hindsight'/],
    [['--replay'], /--replay needs a value/],
    [['--n-step', '0'], /--n-step must be a whole number from 1 to 100, got '0'/],
    [['--n-step', '2.5'], /--n-step must be a whole number from 1 to 100, got '2.5'/],
    [['--device', 'nowhere:0'], /unknown device 'nowhere:0'/],
    [['--trace', '/nonexistent/trace.json'], /--trace \/nonexistent\/trace.json cannot be written/],
    [['now'], /there is no argument 'now'/],
  ];
  itAll('prints a one-line error and exits with code 2 on wrong usage', async function () {
    this.timeout(30_000 * misuse.length);
    const all = await runEach(
      MAIN,
      misuse.map(([args]) => args),
    );
    for (const [i, { code, stdout, stderr }] of all.entries()) {
      const [args, sentence] = misuse[i]!;
      const what = args.join(' ');
      expect(stderr, what).to.match(sentence);
      expect(stderr.trim().split('\n'), what).to.have.length(1);
      expect(stdout, what).to.equal('');
      expect(code, what).to.equal(2);
    }
  });
});
