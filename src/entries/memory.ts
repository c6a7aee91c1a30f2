/**
 * `hotslot/memory`: managed memory, whose pages move between the CPU and the devices of a family.
 */
export { UnifiedMemoryCompileTimeoutError, UnifiedMemoryUnsupportedError } from '../base/errors.ts';
export {
  CompilationState,
  compilationError,
  compilationState,
  compileAllocator,
} from '../extras/unified-memory/compilation.ts';
export {
  adviseManagedModuleParametersPreferredLocation,
  type ManagedModule,
  prefetchManagedModuleParameters,
} from '../extras/unified-memory/managed-module.ts';
export {
  adviseManagedTensorAccessedBy,
  adviseManagedTensorPreferredLocation,
  type MaybeTensor,
  type PrefetchOptions,
  prefetchManagedTensor,
} from '../extras/unified-memory/managed-tensor.ts';
export {
  createUnifiedMempool,
  type MempoolStats,
  type UnifiedMempool,
} from '../extras/unified-memory/mempool.ts';
