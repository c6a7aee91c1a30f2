/** What the user sees while it trains and at the end: live lines on a terminal, plain lines in a pipe, or JSON lines. */
import type { CommandLine } from './options.ts';
import { finalText, liveLines, plainLine, progressObject, summaryObject } from './text.ts';
import type { Outcome, Progress, Training } from './training.ts';

const LIVE_MS = 150;
const PLAIN_MS = 1000;

export class Reporter {
  readonly #training: Training;
  readonly #json: boolean;
  readonly #quiet: boolean;
  readonly #live: boolean;
  readonly #out: NodeJS.WriteStream;
  #timer: NodeJS.Timeout | undefined;
  #before: Progress;
  #lineUp = false;

  constructor(training: Training, { json, quiet }: Pick<CommandLine, 'json' | 'quiet'>, out = process.stdout) {
    this.#training = training;
    this.#json = json;
    this.#quiet = quiet;
    this.#out = out;
    this.#live = !json && out.isTTY === true;
    this.#before = training.progress();
  }

  start(): void {
    const { seed, lockStep } = this.#training.options;
    const { device, placement } = this.#training.manifest;
    if (this.#quiet) return;
    if (this.#json) this.#line(JSON.stringify({ event: 'start', seed, device, placement, lockStep }));
    else this.#line(`DQN on CartPole-v1: seed ${seed}, ${device}, actors ${placement}${lockStep ? ', lock-step' : ''}`);
    this.#timer = setInterval(() => this.#show(), this.#live ? LIVE_MS : PLAIN_MS);
  }

  /** Takes the live lines away, so that whatever is printed next stands alone. */
  stop(): void {
    clearInterval(this.#timer);
    if (this.#lineUp) this.#out.write('\r\x1b[K\x1b[1A\x1b[K');
    this.#lineUp = false;
  }

  finish(outcome: Outcome): void {
    this.stop();
    const training = this.#training;
    if (this.#json) this.#line(JSON.stringify(summaryObject(outcome, training)));
    else this.#line(finalText(outcome, training, this.#quiet));
  }

  #show(): void {
    const progress = this.#training.progress();
    const before = this.#before;
    const seconds = Math.max(1e-3, progress.seconds - before.seconds);
    const rates = {
      steps: (progress.steps - before.steps) / seconds,
      ticks: (progress.ticks - before.ticks) / seconds,
    };
    // Rates on the live line are means over at least half a second: digits that jump cannot be read.
    if (!this.#live || seconds > 0.5) this.#before = progress;
    if (this.#json) this.#line(JSON.stringify(progressObject(progress, rates)));
    else if (this.#live) {
      const [above, below] = liveLines(progress, rates, this.#out.columns ?? 80);
      this.#out.write(`\r${this.#lineUp ? '\x1b[1A' : ''}${above}\x1b[K\n${below}\x1b[K`);
      this.#lineUp = true;
    } else this.#line(plainLine(progress, rates));
  }

  #line(text: string): void {
    this.#out.write(`${text}\n`);
  }
}
