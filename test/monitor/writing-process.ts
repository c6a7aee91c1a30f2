/**
 * A process that writes curves into a folder. It writes until it is killed, once ('once'), or until
 * a write is rejected ('refused').
 */
import { tensorBoard } from '../../src/entries/monitor.ts';

const [folder = '', how = 'for ever'] = process.argv.slice(2);
const board = tensorBoard(folder, how === 'once' ? { flushMs: 20 } : {});

if (how === 'once') board.scalar('count', 7, 0);
else await write();

async function write(): Promise<void> {
  let step = 0;
  let flushed = 0;
  try {
    for (;;) {
      const until = step + 1 + (step % 997);
      for (; step < until; step++) board.scalar('count', step, step);
      await board.flush();
      flushed = step;
      // When the test reads this line, the process already writes the next scalars.
      if (how === 'for ever') process.stdout.write(`${flushed}\n`);
    }
  } catch (error) {
    const told = ({ code, message }: Error & { code?: string }) => console.log(code, message);
    console.log(flushed);
    told(error as Error);
    board.scalar('count', step, step);
    await board.close().catch(told);
    console.log('the training is over');
  }
}
