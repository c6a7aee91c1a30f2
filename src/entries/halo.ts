/** `hotslot/halo`: exchange of halos, which are parts of many arrays, between threads. */
export type { CacheCounts } from '../device/facts.ts';
export { type Edge, type EdgeSlicesOptions, edgeSlices, edges } from '../extras/halo/edges.ts';
export type { HaloQuantities, HaloQuantity } from '../extras/halo/quantity.ts';
export type {
  HaloBuffer,
  HaloExchangeOptions,
  SharedHaloExchange,
} from '../extras/halo/shared-exchange.ts';
export { failHaloExchange, shareHaloExchange } from '../extras/halo/shared-exchange.ts';
export {
  HaloExchangeSpec,
  type HaloExchangeSpecOptions,
  type HaloRange,
  type QuantityHaloOptions,
  QuantityHaloSpec,
} from '../extras/halo/spec.ts';
export {
  type CubedSphereTopologyOptions,
  type CubeFace,
  cubedSphereTopology,
  cubeFaces,
  type HaloNeighbor,
  type HaloNeighbour,
  type HaloPlace,
  type HaloTopology,
  type PeriodicTopologyOptions,
  periodicTopology,
} from '../extras/halo/topology.ts';
export {
  HaloDataTransformer,
  HaloDataTransformerDevice,
  HaloDataTransformerHost,
  type HaloStats,
} from '../extras/halo/transformer.ts';
export {
  HaloUpdater,
  type HaloUpdaterOptions,
  type HaloWaitOptions,
} from '../extras/halo/updater.ts';
export type { RanksElsewhere } from '../shm/exchange-control.ts';
