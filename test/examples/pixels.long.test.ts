/**
 * Tests the pixels example: the game and its frames, what the collectors store, what the device
 * computes from the frames, and the whole program.
 */
import { expect } from 'chai';
import { UsageError } from '../../examples/command-line.ts';
import Catch, { ACTIONS, ENOUGH, FRAME, SIDE } from '../../examples/environments/catch.ts';
import { PixelPolicy } from '../../examples/pixels/collector.ts';
import { PixelLearner } from '../../examples/pixels/learner.ts';
import { parseCommandLine } from '../../examples/pixels/options.ts';
import { drawStack, framed } from '../../examples/pixels/picture.ts';
import { defaults, network } from '../../examples/pixels/settings.ts';
import { openDevice } from '../../src/index.ts';
import { run } from '../cli/run-command.ts';
import { refusal } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';

const main = 'examples/pixels/main.js';

/** Returns the column of the first pixel with this brightness. */
const leftOf = (frame: Uint8Array, grey: number) => frame.indexOf(grey) % SIDE;

describe('pixels example', () => {
  it('a player that tracks the ball in the frames never misses, and an idle player does', () => {
    for (const follows of [true, false]) {
      const game = new Catch();
      let missed = 0;
      for (let seed = 0; seed < 12; seed++) {
        let frame = game.reset(seed);
        for (let over = false; !over; ) {
          const way = leftOf(frame, 255) - 3 - leftOf(frame, 160);
          const { obs, reward, terminated, truncated } = game.step(
            !follows || Math.abs(way) < 4 ? 1 : way < 0 ? 0 : 2,
          );
          frame = obs as Uint8Array;
          expect(terminated).to.equal(reward === -1);
          expect(truncated).to.equal(game.caught === ENOUGH);
          over = terminated || truncated === true;
        }
        missed += Number(game.caught < ENOUGH);
      }
      expect(missed).to.be.within(follows ? 0 : 10, follows ? 0 : 12);
    }
  });

  it('a Catch frame shows the whole ball and the whole paddle', () => {
    const game = new Catch();
    let frame = game.reset(2);
    for (let step = 0; step < 500; step++) {
      expect(frame.filter((grey) => grey === 255)).to.have.length(7 * 7);
      expect(frame.filter((grey) => grey === 160)).to.have.length(14 * 7);
      const { obs, terminated, truncated } = game.step(step % ACTIONS);
      frame = terminated || truncated ? game.reset(step) : (obs as Uint8Array);
    }
  });

  it('PixelLearner and PixelPolicy compute equal values from the same stacks', async () => {
    const settings = { ...defaults, rows: 2 };
    using device = openDevice('host:0');
    const learner = new PixelLearner(device, settings, 1);
    await learner.dqn.ready;
    const games = Uint8Array.from(
      Array.from({ length: 16 }, (_, seed) => [...new Catch().reset(seed)]).flat(),
    );
    const bytes = (frames: Uint8Array) =>
      device
        .allocate({ shape: [2, 4, SIDE, SIDE], dtype: 'uint8' })
        .write(frames.slice(0, 8 * FRAME));
    const obs = bytes(games);
    const nextObs = bytes(games.subarray(8 * FRAME));
    const actions = device.allocate({ shape: [2], dtype: 'uint8' });
    const [rewards, discounts] = [device.allocate({ shape: [2] }), device.allocate({ shape: [2] })];
    const out = device.allocate({ shape: [2] });
    const weights = await learner.dqn.parameters.toArray();
    const policy = new PixelPolicy(network(settings)).load(weights);
    learner.update(device.currentStream, { obs, nextObs, actions, rewards, discounts }, out);
    for (const [which, tensor] of [learner.now, learner.next].entries()) {
      const found = await tensor.toArray();
      for (let at = 0; at < 8 * FRAME; at++)
        if (Math.abs(found[at]! - games[which * 8 * FRAME + at]! / 255) > 1e-6)
          expect.fail(`${which}, ${at}`);
    }
    // `values` has the value of each action. Both rows took action 0. The collector's policy reads
    // the same bytes.
    const values = learner.dqn
      .policy()
      .load(weights)
      .values(await learner.now.toArray(), 2);
    const [, meanQ] = await out.toArray();
    expect(meanQ).to.be.closeTo((values[0]! + values[ACTIONS]!) / 2, 1e-5);
    const best = [0, 1].map((row) =>
      [0, 1, 2].reduce((a, b) => (values[3 * row + b]! > values[3 * row + a]! ? b : a)),
    );
    expect([...policy.act(Float32Array.from(games.subarray(0, 8 * FRAME)), 2)]).to.deep.equal(best);
    for (const part of [learner, obs, nextObs, actions, rewards, discounts, out]) part.close();
  });

  itAll('--json prints progress, and a summary with steps, batches and memory sizes', async () => {
    const { code, stderr, lines } = await run(main, [
      '--json',
      '--seconds',
      '2',
      '--lanes',
      '4',
      '--capacity',
      '2000',
    ]);
    expect(stderr).to.equal('');
    expect(code).to.equal(0);
    const objects = lines.map((line) => JSON.parse(line));
    const summary = objects.pop();
    expect(objects.length).to.be.at.least(1);
    for (const { event, steps } of objects) {
      expect(event).to.equal('progress');
      expect(steps).to.be.at.most(summary.steps);
    }
    expect(summary).to.include({
      event: 'summary',
      device: 'host:0',
      rows: 32,
      interrupted: false,
    });
    expect(summary.steps).to.be.above(1000);
    expect(summary.batches).to.be.above(10);
    // A row has two stacks, the action, reward, discount, two flags, the number of steps and the
    // id.
    const rowBytes = 8 * FRAME + 1 + 4 + 4 + 2 + 4 + 8;
    expect([summary.batchBytes, summary.stackedBytes]).to.deep.equal([
      32 * rowBytes,
      2000 * rowBytes,
    ]);
    expect(summary.bufferBytes / 2000).to.be.within(FRAME, FRAME + 256);
    // Four samples are drawn per written step. They may deviate by the limiter's band and the
    // batches in flight.
    const [drawn, written] = [32 * summary.batches, summary.steps - 1000];
    expect(Math.abs(drawn - 4 * written)).to.be.at.most(2 * (32 + 4 * 4) + 8 * 32);
  });

  itAll('prints a drawn stack, the rates and the memory in at most 80 columns', async () => {
    const { code, stdout, lines } = await run(main, ['--seconds', '1', '--samples-per-step', '0']);
    expect(code).to.equal(0);
    const result = lines.slice(lines.findIndex((line) => line.startsWith('┌')));
    for (const line of result) expect(line.length, line).to.be.at.most(80);
    expect(result.slice(0, 23).join('')).to.match(/^┌─{42}┐(│[ ░▒▓█]{42}│){21}└─{42}┘$/);
    expect(stdout.replaceAll('\n', ' '))
      .to.match(
        /s on host:0: [\d,]+ steps written, [\d,]+ a second [\d,]+ batches of 32 transitions of 3 steps/,
      )
      .and.match(
        /\d+ MB\/s to the device a batch: drawn and stacked in [\d.]+ ms, copied in [\d.]+ ms/,
      )
      .and.match(
        /memory: 1\d\d MiB for 20,000 places with one frame each; with two stacks each it were 1,077 MiB, 7\.\d/,
      );
  });

  it('drawStack() draws older frames lighter, and newer frames over older frames', () => {
    const frames = new Uint8Array(4 * FRAME);
    for (let frame = 0; frame < 4; frame++)
      for (let row = 0; row < 4; row++)
        frames.fill(
          255,
          frame * FRAME + row * SIDE + 2 * frame,
          frame * FRAME + row * SIDE + 2 * frame + 4,
        );
    const [first, second] = drawStack(frames);
    expect(first).to.equal(`░▒▓██${' '.repeat(37)}`);
    expect(second).to.equal(' '.repeat(42));
    expect(framed(['ab', 'cd'])).to.equal('┌──┐\n│ab│\n│cd│\n└──┘');
  });

  itAll('prints the summary and exits with code 130 when Ctrl-C interrupts the run', async () => {
    const { code, lines, stderr } = await run(main, ['--json', '--seconds', '60'], {
      interruptAt: /"progress"/,
    });
    expect([code, stderr]).to.deep.equal([130, '']);
    expect(JSON.parse(lines.at(-1)!)).to.include({ event: 'summary', interrupted: true });
  });

  for (const [args, sentence] of [
    [['--lanes', '0'], "--lanes must be a whole number from 1 to 1024, got '0'"],
    [['--workers', '3', '--lanes', '2'], '--workers must be at most --lanes, 2; got 3'],
    [
      ['--capacity', '20001'],
      '--capacity must be a multiple of --lanes, 16, such as 20000; got 20001',
    ],
    [['--capacity', '100'], '--capacity must be at least 64 for each of 16 lanes, got 100'],
    [['--rows', 'many'], "--rows must be a whole number from 1 to 4096, got 'many'"],
    [
      ['--samples-per-step', '-1'],
      "--samples-per-step must be a number from 0 to 1000000000, got '-1'",
    ],
    [['--seconds', '0'], "--seconds must be a number above 0, got '0'"],
    [['--stack', '4'], "unknown option '--stack'"],
  ] as const)
    it(`parseCommandLine() throws for ${args.join(' ')}`, () => {
      const error = refusal(() => parseCommandLine(args));
      expect(error).to.be.instanceOf(UsageError);
      expect(error.message).to.equal(sentence);
    });

  itAll('rejects an unknown device with one sentence and exit code 2', async () => {
    const { code, stdout, stderr } = await run(main, ['--device', 'nowhere:0']);
    expect([code, stdout]).to.deep.equal([2, '']);
    expect(stderr).to.match(/^pixels: unknown device 'nowhere:0'.*; see --help\n$/);
  });

  itAll('--help prints every option and the exit codes in at most 80 columns', async () => {
    const { code, stdout, lines } = await run(main, ['--help']);
    expect(code).to.equal(0);
    for (const option of [
      'seconds',
      'seed',
      'device',
      'lanes',
      'workers',
      'capacity',
      'rows',
      'samples-per-step',
      'json',
    ])
      expect(stdout).to.include(`--${option}`);
    expect(stdout).to.match(/exit code: 0 .*130/);
    for (const line of lines) expect(line.length, line).to.be.at.most(80);
  });
});
