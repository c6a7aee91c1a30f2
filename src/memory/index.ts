/** `hotslot/memory`: one address for the processor and the devices, between which its pages move. */
export { UnifiedMemoryCompileTimeoutError, UnifiedMemoryUnsupportedError } from '../errors.ts';
export { CompilationState, compilationError, compilationState, compileAllocator } from './compilation.ts';
export {
  adviseManagedModuleParametersPreferredLocation,
  type ManagedModule,
  prefetchManagedModuleParameters,
} from './managed-module.ts';
export {
  adviseManagedTensorAccessedBy,
  adviseManagedTensorPreferredLocation,
  type MaybeTensor,
  type PrefetchOptions,
  prefetchManagedTensor,
} from './managed-tensor.ts';
export { createUnifiedMempool, type MempoolStats, type UnifiedMempool } from './mempool.ts';
