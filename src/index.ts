/**
 * `hotslot`: everything on the replay path, which is buffers, collectors, the pipeline, devices and
 * weights. Every other subject has its own entry point: `hotslot/collect`, `learner`, `graph`,
 * `memory`, `linop`, `halo`, `ranks`, `remote`, `formats`, `monitor` and `transfer`. Programs can
 * import only these entry points.
 */

import './assembly.ts';

export type { CoresNow } from './base/cores.ts';
export type { ArrayOf, DType, DTypeOf, TypedArray } from './base/dtype.ts';
export {
  DeviceError,
  type DeviceErrorDetail,
  type ErrorCode,
  PipelineError,
} from './base/errors.ts';
export { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from './base/float16.ts';
export { Random } from './base/random.ts';
export { CpuTensor } from './device/cpu-tensor.ts';
export type {
  Device,
  DeviceEvent,
  Graph,
  GraphExec,
  HostMemory,
  LaunchArguments,
  LoadedArguments,
  Storage,
  Stream,
} from './device/device.ts';
export { Tensor } from './device/device.ts';
export type {
  Advice,
  DeviceFamily,
  DeviceInfo,
  DeviceTraits,
  HostKind,
  MemoryInfo,
  Products,
  Residency,
} from './device/facts.ts';
export type { ArgumentsOf, KernelName } from './device/kernels.ts';
export { listDevices, type OpenOptions, openDevice } from './device/open.ts';
export type {
  KernelDeclaration,
  KernelImage,
  KernelsToLoad,
  LaunchNumbers,
  LoadedKernel,
} from './device/own-kernels/declarations.ts';
export { type PhiloxIndices, philoxIndices } from './engine/device-rows/head.ts';
export type { DeviceRingOptions, RowsKept } from './engine/device-rows/options.ts';
export type { RingStatistics } from './engine/device-rows/statistics.ts';
export type { RunOptions } from './engine/pipeline/autonomous.ts';
export type { AveragingOptions } from './engine/pipeline/averaging.ts';
export type { Batch, Extras } from './engine/pipeline/batches.ts';
export type { CaptureContext, CaptureFunction, CaptureOptions } from './engine/pipeline/capture.ts';
export type { PipelineEvents, Tick } from './engine/pipeline/history.ts';
export type { PipelineNow, SlotNow } from './engine/pipeline/inspect.ts';
export type { TransferManifest } from './engine/pipeline/manifest.ts';
export type {
  PipelineOptions,
  Placement,
  TraceOptions,
  TrajectoryPipelineOptions,
} from './engine/pipeline/options.ts';
export { ReplayPipeline } from './engine/pipeline/replay-pipeline.ts';
export type { StageName, StageTimes, Summary } from './engine/pipeline/summary.ts';
export type { Role } from './engine/ring/slot.ts';
export { Checkpoint } from './run/checkpoint/checkpoint.ts';
export type { CheckpointContents } from './run/checkpoint/inspect.ts';
export type { PartFacts, PartName, Plain, PlainRecord } from './run/checkpoint/manifest.ts';
export type {
  CheckpointEvents,
  CheckpointOptions,
  RestoredCheckpoint,
  SavedCheckpoint,
} from './run/checkpoint/options.ts';
export type {
  CheckpointCollectors,
  CheckpointLearner,
  CheckpointParts,
} from './run/checkpoint/parts.ts';
export {
  type AnyCollector,
  type BufferField,
  type Collected,
  type Collector,
  type CollectorContext,
  type CollectorFactory,
  type CollectorReport,
  defineCollector,
} from './run/collectors/collector.ts';
export { CollectorPool } from './run/collectors/collector-pool.ts';
export type { CollectorPoolOptions } from './run/collectors/pool-options.ts';
export type { RunningCollectors } from './run/collectors/pool-pause.ts';
export type { CollectorStatistics, Episode } from './run/collectors/statistics.ts';
export type { EndingName } from './shm/ending.ts';
export type { WaitOptions } from './shm/wait.ts';
export type { PlacesRead } from './store/lanes/reader.ts';
export type {
  BatchFields,
  FieldColumns,
  SampleOf,
  TransitionSample,
  WindowSample,
} from './store/lanes/samples.ts';
export type {
  DTypeOfStep,
  Flags,
  GivenOf,
  Observations,
  StepField,
  StepFieldSpec,
  StepFields,
  StepLayout,
  Steps,
  TypeOfStep,
} from './store/lanes/schema.ts';
export type { SharedTrajectoryBuffer } from './store/lanes/shared-steps.ts';
export { TrajectoryBuffer } from './store/lanes/trajectory-buffer.ts';
export type { TrajectoryWriter } from './store/lanes/trajectory-writer.ts';
export {
  type Normalise,
  type Normalize,
  type PrioritizedOptions,
  type PrioritizedSampler,
  prioritized,
  prioritizedIndices,
} from './store/prioritized.ts';
export {
  RateLimiter,
  type RateLimiterOptions,
  type SharedRateLimiter,
} from './store/rate-limiter.ts';
export type { LoadedActions } from './store/rows/action-check.ts';
export type { LoadOptions } from './store/rows/data-set.ts';
export type { NonFiniteNumbers } from './store/rows/field-roles.ts';
export type {
  ArrayFieldSpec,
  CriticRows,
  DTypeIn,
  FieldArray,
  FieldDType,
  FieldSpec,
  Fields,
  FieldsOf,
  FieldType,
  MaskFieldSpec,
  MaskRows,
  OffPolicyFields,
  OffPolicyRows,
  PackedRows,
  RowFlags,
  RowsOf,
  SchemaRows,
  SchemaRowsOf,
  TerminatedRows,
  TransitionsOf,
} from './store/rows/fields.ts';
export { type GoalRewardOptions, goalReward } from './store/rows/goal-reward.ts';
export type { FieldLayout, PackLayout } from './store/rows/pack-layout.ts';
export type { Mark } from './store/rows/packed.ts';
export { ReplayBuffer, type SharedReplayBuffer } from './store/rows/replay-buffer.ts';
export { type Sample, type SampleOptions, uniformIndices } from './store/rows/sampler.ts';
export { type Hindsight, type HindsightOptions, hindsight } from './store/views/hindsight.ts';
export type { Stack, TransitionsOptions, View, WindowsOptions } from './store/views/views.ts';
export { type SharedWeightMailbox, WeightMailbox } from './store/weights/weight-mailbox.ts';
