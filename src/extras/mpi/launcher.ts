/**
 * Finds the launcher that started this process as one of several, and the MPI libraries that may
 * belong to this launcher.
 */
import { describeValue } from '../../base/checks.ts';
import { typeError, unavailableError } from '../../base/errors.ts';

export interface Launcher {
  /** name in errors */
  readonly name: string;
  /** number of processes that the launcher started */
  readonly size: number;
  /** file names of MPI libraries to try, the likeliest first */
  readonly libraries: readonly string[];
}

const openMpi = ['libmpi.so.40'];
const mpich = ['libmpi.so.12', 'libmpich.so.12'];
/** Libraries with the standard ABI of MPI 5. MPICH 5.0 named its library `.so.0`. */
const standard = ['libmpi_abi.so.1', 'libmpi_abi.so.0'];

const START = 'start it as one of several processes, such as: mpirun -n 2 node main.mjs';

/**
 * Returns the launcher, which it recognizes by environment variables. Throws
 * ERR_HOTSLOT_UNAVAILABLE if no launcher's variable is set.
 */
export function launcherOf(env: NodeJS.ProcessEnv, library: string | undefined): Launcher {
  if (library !== undefined && typeof library !== 'string')
    throw typeError(`library must name an MPI library to open, got ${describeValue(library)}`);
  const named = library ?? env.HOTSLOT_MPI;
  const count = (name: string) => (/^[1-9]\d*$/.test(env[name] ?? '') ? Number(env[name]) : null);
  const found = (
    name: string,
    size: number | null,
    libraries: readonly string[],
  ): Launcher | null =>
    size === null ? null : { name, size, libraries: named ? [named] : libraries };
  const launcher =
    found("Open MPI's mpirun", count('OMPI_COMM_WORLD_SIZE'), [...openMpi, ...standard]) ??
    found("MPICH's mpiexec, or one like it,", count('PMI_SIZE'), [...mpich, ...standard]) ??
    (env.PMIX_RANK === undefined
      ? null
      : found('srun', count('SLURM_STEP_NUM_TASKS') ?? count('SLURM_NTASKS'), [
          ...openMpi,
          ...mpich,
          ...standard,
        ]));
  if (launcher === null)
    throw unavailableError(
      `no MPI launcher started this process (none of OMPI_COMM_WORLD_SIZE, PMI_SIZE and PMIX_RANK is set): ${START}`,
    );
  return launcher;
}
