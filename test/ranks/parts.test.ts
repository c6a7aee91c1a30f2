/**
 * Tests which launcher is detected, which settings processes compare, and the letters that they
 * send.
 */
import { expect } from 'chai';
import { checkAgreed, recordOf } from '../../src/engine/group/agreement.ts';
import { read, written } from '../../src/engine/group/letters.ts';
import { launcherOf } from '../../src/extras/mpi/launcher.ts';
import { refusal } from '../rig/refusal.ts';

describe('launchers, agreement and letters of ranks', () => {
  it('launcherOf() detects the launcher by its environment variables', () => {
    const of = (env: NodeJS.ProcessEnv, library?: string) => launcherOf(env, library);
    expect(of({ OMPI_COMM_WORLD_SIZE: '4' }))
      .to.deep.include({ size: 4 })
      .and.property('libraries')
      .include('libmpi.so.40');
    expect(of({ PMI_SIZE: '2' }).libraries[0]).to.equal('libmpi.so.12');
    expect(of({ PMIX_RANK: '0', SLURM_NTASKS: '96', SLURM_STEP_NUM_TASKS: '8' })).to.deep.include({
      name: 'srun',
      size: 8,
    });
    expect(of({ PMIX_RANK: '0', SLURM_NTASKS: '96' }).size).to.equal(96);
    expect(of({ PMI_SIZE: '2', HOTSLOT_MPI: '/opt/libmpi.so' }).libraries).to.deep.equal([
      '/opt/libmpi.so',
    ]);
    expect(of({ PMI_SIZE: '2', HOTSLOT_MPI: '/opt/libmpi.so' }, 'mine.so').libraries).to.deep.equal(
      ['mine.so'],
    );
    for (const env of [
      {},
      { OMPI_COMM_WORLD_SIZE: '0' },
      { PMI_SIZE: 'two' },
      { SLURM_NTASKS: '2' },
    ])
      expect(refusal(() => of(env)).code).to.equal('ERR_HOTSLOT_UNAVAILABLE');
    expect(refusal(() => of({ PMI_SIZE: '2' }, 7 as never)).message).to.equal(
      'library must name an MPI library to open, got 7',
    );
  });

  it('checkAgreed() names the first process that differs', () => {
    const agree = (...records: Uint8Array[]) =>
      checkAgreed(Uint8Array.from(records.flatMap((bytes) => [...bytes])));
    const one = recordOf('a halo exchange', { ranks: 4 });
    agree(one, one, recordOf('a halo exchange', { ranks: 4 }));
    const message = (...records: Uint8Array[]) => refusal(() => agree(...records)).message;
    expect(message(one, one, recordOf('the end', null))).to.match(
      /^process 2 begins the end where process 0 begins a halo/,
    );
    expect(message(one, recordOf('a halo exchange', { ranks: 5 }))).to.match(
      /^process 1 .* with other options/,
    );
    const older = Uint8Array.from(one);
    older[1] = '9'.charCodeAt(0);
    expect(message(one, older)).to.match(/^process 1 runs another version of Hotslot/);
  });

  it('read() returns the letter that written() encoded, and long errors are truncated', () => {
    const left = { kind: 'left', rank: 3, state: 2, exchange: 2 ** 40 } as const;
    expect(read(written(left))).to.deep.equal(left);
    const long = Object.assign(new Error('no '.repeat(9999)), { code: 'ERR_HOTSLOT_DEVICE' });
    for (const error of [new RangeError('no'), long]) {
      const bytes = written({ kind: 'note', rank: 1, exchange: 7, error });
      expect(bytes.length).to.be.at.most(4096);
      const padded = new Uint8Array(4096);
      padded.set(bytes);
      const again = read(padded);
      expect(again).to.deep.include({ kind: 'note', rank: 1, exchange: 7 });
      expect(
        error.message.startsWith((again as { error: Error }).error.message.slice(0, 100)),
      ).to.equal(true);
    }
  });
});
