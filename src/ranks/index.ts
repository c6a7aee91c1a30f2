/** `hotslot/ranks`: several processes that an MPI launcher started, on one machine or many. */
export { type MpiProcess, type OpenMpiOptions, openMpi } from './mpi.ts';
