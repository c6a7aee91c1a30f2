/**
 * Checks the model of a lane of trajectories (lanes.ts). The rules hold in every order of its loads
 * and stores. Each rule broken on purpose is caught.
 */
import { itAll } from '../rig/setting.ts';
import { type LanesMutation, type LanesSetup, lanesProtocol } from './lanes.ts';
import { proofsOf } from './proofs.ts';

function inWords(setup: LanesSetup): string {
  const { places, writer, successor, n = 1, frames = 1, clears = 0, rounds = 1 } = setup;
  const then = successor ? `dies anywhere, then '${successor}'` : 'dies anywhere, and none follows';
  const view = `n = ${n}, ${frames} ${frames > 1 ? 'frames' : 'frame'}`;
  const others = `${clears > 0 ? `, cleared ${clears} ×` : ''}${rounds > 1 ? `, ${rounds} samples` : ''}`;
  return `${places} places, '${writer}'${successor === undefined ? '' : ` ${then}`}, ${view}${others}`;
}

const { holds, caught, explored } = proofsOf(lanesProtocol, inWords);

describe('trajectory lane model', function () {
  this.timeout(60_000);

  describe('rules hold while the writer lives', () => {
    for (const places of [2, 3]) for (const writer of ['sssss', 'sesse']) holds({ places, writer });
    holds({ places: 3, writer: 'ssssses', n: 2, rounds: 2 });
    holds({ places: 3, writer: 'ssssses', frames: 2, rounds: 2, atOnce: 1 });
    holds({ places: 4, writer: 'sessssse', n: 2, frames: 2, rounds: 2 });
    holds({ places: 4, writer: 'sesssssesss', n: 2, frames: 3, rounds: 3, atOnce: 2 }, itAll);
  });

  describe('rules hold when the writer dies between any two stores', () => {
    for (const successor of ['', 'ss', 'ese']) holds({ places: 2, writer: 'sse', successor });
    holds({ places: 3, writer: 'sses', successor: 'sses', rounds: 2 });
    holds({ places: 4, writer: 'sssses', successor: 'ses', n: 2, frames: 2 });
    holds({ places: 4, writer: 'sssse', successor: 'ssesss', n: 2, frames: 2, rounds: 2 }, itAll);
  });

  describe('rules hold when the lane is cleared', () => {
    for (const clears of [1, 2]) holds({ places: 3, writer: 'sess', clears });
    holds({ places: 3, writer: 'ssse', clears: 1, rounds: 2, frames: 2 });
    holds({ places: 3, writer: 'sse', successor: 'ses', clears: 1 });
    holds({ places: 4, writer: 'sse', successor: 'sses', clears: 2, n: 2 }, itAll);
  });
});

describe('trajectory lane model: mutations are caught', function () {
  this.timeout(60_000);

  after(() => console.log(`      ${explored()} of a lane`));

  const living = { places: 3, writer: 'sesse' } as const;
  /** the ring keeps only the last frame of some stacks */
  const stacked = { places: 3, writer: 'sssses', frames: 2 } as const;
  const dead = { places: 3, writer: 'sses', successor: '' } as const;
  const followed = { places: 3, writer: 'sses', successor: 'ses' } as const;
  const proves = (rule: string, setup: LanesSetup, ...broken: LanesMutation[]) => {
    for (const each of broken) caught(each, rule, setup);
  };

  describe('writer', () => {
    proves(
      'Lanes-4',
      living,
      'the writer stores `begun` after the bytes',
      'the writer does not fence after it stores `begun`',
    );
    proves(
      'Lanes-4',
      living,
      'the writer stores `committed` before the bytes',
      'the writer stores `committed` without release order',
    );
    proves('Lanes-4', dead, 'the writer does not count the final observation in `begun`');
    proves('Lanes-3', living, 'the writer commits a step without its final observation');
  });

  describe('successor of a dead writer', () => {
    proves(
      'Lanes-4',
      followed,
      'a successor lowers `begun` to `committed`',
      'a successor does not fence if `begun` is high enough',
    );
    proves('Lanes-4', followed, 'a successor continues at `begun` instead of `committed`');
    proves('list', followed, 'a successor continues the episode of the dead writer');
    proves('count', followed, 'a successor does not correct the count of steps');
  });

  describe('clearing', () => {
    proves(
      'Lanes-6',
      { places: 3, writer: 'sess', clears: 2 },
      'a clearer stores the floor without comparing it',
    );
  });

  describe('reader: listing steps', () => {
    proves('Lanes-4', living, 'the reader loads `committed` without acquire order');
    proves('Lanes-2', living, 'the reader accepts a span longer than the ring');
    // These mutations need a dead writer. A living writer stores committed in the end, a dead one
    // never does.
    proves('livelock', dead, 'the reader computes its span from `committed` alone');
    proves('list', { places: 3, writer: 'ssss', clears: 1 }, 'the reader ignores the floor');
    proves(
      'Lanes-4',
      living,
      'the reader copies notes after it loads `begun`',
      'the reader trusts notes that are overwritten',
    );
    proves('Lanes-4', living, 'the reader checks only the last note against `begun`');
    proves('livelock', living, 'a lapped reader continues at its old place');
    proves('list', followed, 'the reader treats the first step of an episode as the next one');
    proves(
      'list',
      { ...stacked, rounds: 2 },
      'the reader keeps a stack until its last frame is gone',
    );
  });

  describe('reader: sampling', () => {
    proves('Lanes-4', living, 'the reader does not fence before it loads `begun`');
    proves(
      'Lanes-4',
      living,
      'the reader does not check `begun` after its copy',
      'the reader checks `begun` before its copy',
    );
    proves(
      'Lanes-4',
      { ...stacked, rounds: 2 },
      'the reader checks `begun` for the drawn step only',
    );
    proves('livelock', living, 'the reader draws again without updating its list');
  });
});
