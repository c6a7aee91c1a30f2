/** `hotslot/halo`: parts of many arrays packed into one buffer and exchanged between threads. */
export type { CacheCounts } from '../device/facts.ts';
export type { RanksElsewhere } from '../wait/exchange-words.ts';
export { type Edge, type EdgeSlicesOptions, edgeSlices, edges } from './edges.ts';
export type { HaloQuantities, HaloQuantity } from './quantity.ts';
export type { HaloBuffer, HaloExchangeOptions, SharedHaloExchange } from './shared-exchange.ts';
export { failHaloExchange, shareHaloExchange } from './shared-exchange.ts';
export {
  HaloExchangeSpec,
  type HaloExchangeSpecOptions,
  type HaloRange,
  type QuantityHaloOptions,
  QuantityHaloSpec,
} from './spec.ts';
export {
  type CubedSphereTopologyOptions,
  type CubeFace,
  cubedSphereTopology,
  cubeFaces,
  type HaloNeighbour,
  type HaloPlace,
  type HaloTopology,
  type PeriodicTopologyOptions,
  periodicTopology,
} from './topology.ts';
export {
  HaloDataTransformer,
  HaloDataTransformerDevice,
  HaloDataTransformerHost,
  type HaloStats,
} from './transformer.ts';
export { HaloUpdater, type HaloUpdaterOptions, type HaloWaitOptions } from './updater.ts';
