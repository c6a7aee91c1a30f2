/** `hotslot/remote`: collectors on other machines, over Redis or Valkey. */
export { CollectorHost } from './collector-host.ts';
export type { CollectorHostOptions, CollectorHostStatistics } from './host-options.ts';
export { RemoteCollectors, type RemoteCollectorsOptions } from './remote-collectors.ts';
export type { RemoteStatistics } from './reports.ts';
export type { RemoteHostState, RemoteHostStatus, RemoteSpread, RemoteStatus } from './status.ts';
