/**
 * `hotslot/transfer`: the replay transfer backends, for programs that move slots without the
 * actors.
 */
export type {
  ArmedSlots,
  BackendOptions,
  H2dSubmitter,
  HostMemoryKind,
  ReplayTransferBackend,
  SharedTransferBackend,
  SubmitH2dOptions,
} from '../device/transfer/backend.ts';
export { buildReplayTransferBackend } from '../device/transfer/build.ts';
export {
  CudaLikeReplayTransferBackend,
  HostCopyReplayTransferBackend,
  XpuReplayTransferBackend,
} from '../device/transfer/families.ts';
export { type TransferChoice, TransferMode } from '../device/transfer/native.ts';
