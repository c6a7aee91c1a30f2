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
    proves('Lanes-4', living, 'begun stored after the bytes', 'no fence behind begun');
    proves(
      'Lanes-4',
      living,
      'committed stored before the bytes',
      'committed stored without release',
    );
    proves('Lanes-4', dead, 'a final observation not begun');
    proves('Lanes-3', living, 'a step committed without its final observation');
  });

  describe('successor of a dead writer', () => {
    proves(
      'Lanes-4',
      followed,
      'begun lowered to committed',
      'no fence where begun is there already',
    );
    proves('Lanes-4', followed, "places counted on from the dead writer's begun");
    proves('list', followed, "the dead writer's episode continued");
    proves('count', followed, 'the count of steps taken over as it is');
  });

  describe('clearing', () => {
    proves('Lanes-6', { places: 3, writer: 'sess', clears: 2 }, 'the floor stored as it was found');
  });

  describe('reader: listing steps', () => {
    proves('Lanes-4', living, 'committed loaded without acquire');
    proves('Lanes-2', living, 'a span longer than the ring');
    // These mutations need a dead writer. A living writer stores committed in the end, a dead one
    // never does.
    proves('livelock', dead, 'span taken from committed alone');
    proves('list', { places: 3, writer: 'ssss', clears: 1 }, 'floor ignored');
    proves(
      'Lanes-4',
      living,
      'notes copied behind the look at begun',
      'notes believed though overtaken',
    );
    proves('Lanes-4', living, 'the last note looked at alone');
    proves('livelock', living, 'a reader goes on where it was lapped');
    proves('list', followed, 'a first step taken for the next one');
    proves('list', { ...stacked, rounds: 2 }, 'a stack dropped with its last frame');
  });

  describe('reader: sampling', () => {
    proves('Lanes-4', living, 'no fence before begun is looked at');
    proves(
      'Lanes-4',
      living,
      'begun not looked at behind the copy',
      'begun looked at before the copy',
    );
    proves('Lanes-4', { ...stacked, rounds: 2 }, 'begun looked at for the step alone');
    proves('livelock', living, 'drawn again from the same list');
  });
});
