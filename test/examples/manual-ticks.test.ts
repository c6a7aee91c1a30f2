/** Tests that the smallest example runs unchanged. */
import { expect } from 'chai';
import { run } from '../cli/run-command.ts';

describe('manual-ticks example', () => {
  it('prints the device, and 64 observations for each of three ticks', async () => {
    const { code, stderr, lines } = await run('examples/manual-ticks/main.js', []);
    expect(stderr).to.equal('');
    expect(code).to.equal(0);
    expect(lines[0]).to.equal('on host:0 by host_direct');
    expect(lines.slice(1)).to.have.length(3);
    lines
      .slice(1)
      .forEach(
        (line, tick) =>
          void expect(line).to.match(new RegExp(`^tick ${tick}: 64 × 4 observations`)),
      );
  });
});
