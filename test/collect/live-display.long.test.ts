/** Tests what showProgress() writes to a terminal and to a pipe while an example works. */
import { EventEmitter, once } from 'node:events';
import { expect } from 'chai';
import { showProgress } from '../../src/run/train/live-display.ts';
import { itAll } from '../rig/setting.ts';

/** An output that keeps the written text and emits `text` at each write. */
class Output extends EventEmitter {
  readonly isTTY: boolean;
  columns = 20;
  text = '';

  constructor(isTTY: boolean) {
    super();
    this.isTTY = isTTY;
  }
  write(text: string): boolean {
    this.text += text;
    this.emit('text');
    return true;
  }
  as(): NodeJS.WriteStream & { fd: 1 } {
    return this as unknown as NodeJS.WriteStream & { fd: 1 };
  }
}

/** Resolves after `count` texts were written. */
const texts = (out: Output, count: number) =>
  new Promise<string>((resolve) => {
    let left = count;
    out.on('text', () => --left === 0 && resolve('done'));
  });

describe('showProgress()', () => {
  it('cuts lines to the terminal width, redraws them in place and clears them at the end', async () => {
    const out = new Output(true);
    let n = 0;
    const progress = {
      live: () => [`step ${++n}`, 'a line that is far too long'],
      line: () => 'never',
    };
    expect(await showProgress(texts(out, 2), progress, out.as())).to.equal('done');
    const below = 'a line that is f…\x1b[K';
    expect(out.text).to.equal(
      `\rstep 1\x1b[K\n${below}\r\x1b[1Astep 2\x1b[K\n${below}\r\x1b[1A\x1b[J`,
    );
  });

  it('writes permanent lines without escape sequences to a pipe', async () => {
    const out = new Output(false);
    await showProgress(texts(out, 1), { live: () => ['never'], line: () => 'step 1' }, out.as());
    expect(out.text).to.equal('step 1\n');
  });

  itAll('writes plain lines when the width of the terminal is unknown', async () => {
    const out = new Output(true);
    out.columns = 0;
    await showProgress(
      texts(out, 1),
      { live: () => ['never'], line: () => 'a line as long as it is' },
      out.as(),
    );
    expect(out.text).to.equal('a line as long as it is\n');
  });

  it('warns once and returns the result of the work when live() throws', async () => {
    const warnings: string[] = [];
    const collect = (warning: Error) => warnings.push(warning.message);
    process.on('warning', collect);
    try {
      let over = (_: string) => {};
      const work = new Promise<string>((resolve) => {
        over = resolve;
      });
      const warned = once(process, 'warning');
      const live = () => {
        throw new Error('no lines');
      };
      const shown = showProgress(work, { live }, new Output(true).as());
      await warned;
      over('done');
      expect(await shown).to.equal('done');
    } finally {
      process.off('warning', collect);
    }
    expect(warnings).to.deep.equal([
      'showProgress: the display stops, the work continues: Error: no lines',
    ]);
  });

  it('clears the live lines when the work fails', async () => {
    const out = new Output(true);
    const failing = texts(out, 1).then(() => Promise.reject(new Error('no more')));
    const error = await showProgress(failing, { live: () => ['step 1'] }, out.as()).catch(
      (thrown) => thrown,
    );
    expect([error.message, out.text]).to.deep.equal(['no more', '\rstep 1\x1b[K\r\x1b[J']);
  });
});
