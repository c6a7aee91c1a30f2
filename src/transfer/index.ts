/** `hotslot/transfer`: the replay transfer backends by themselves, for who drives slots without the actors. */
export type {
  ArmedSlots,
  BackendOptions,
  H2dSubmitter,
  HostMemoryKind,
  ReplayTransferBackend,
  SharedTransferBackend,
  SubmitH2dOptions,
} from './backend.ts';
export { buildReplayTransferBackend } from './build.ts';
export {
  CudaLikeReplayTransferBackend,
  HostCopyReplayTransferBackend,
  XpuReplayTransferBackend,
} from './families.ts';
export { type TransferChoice, TransferMode } from './native.ts';
