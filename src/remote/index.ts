/** `hotslot/remote`: collectors on other machines, over Redis or Valkey. */

export type { RemoteHostState, RemoteHostStatus, RemoteSpread, RemoteStatus } from '../collectors/remote-status.ts';
export type { RemoteServerOptions } from './address.ts';
export { CollectorHost } from './collector-host.ts';
export type { CollectorHostOptions, CollectorHostStatistics } from './host-options.ts';
export { RemoteCollectors } from './remote-collectors.ts';
export type { RemoteCollectorsOptions } from './remote-options.ts';
export type { RemoteStatistics } from './reports.ts';
