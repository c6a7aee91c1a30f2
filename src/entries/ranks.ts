/**
 * `hotslot/ranks`: groups of learners in several threads, or in several processes that an MPI
 * launcher started on one or more machines.
 */
export { type GroupProcess, type JoinOptions, LearnerGroup } from '../engine/group/group.ts';
export {
  type LearnerGroupOptions,
  type SharedLearnerGroup,
  shareLearnerGroup,
} from '../engine/group/group-shared.ts';
export { type MpiProcess, type OpenMpiOptions, openMpi } from '../extras/mpi/mpi.ts';
