/** `hotslot/remote`: collectors on other machines, over Redis or Valkey. */

export type { RemoteServerOptions } from '../net/remote/address.ts';
export { CollectorHost } from '../net/remote/collector-host.ts';
export type { CollectorHostOptions, CollectorHostStatistics } from '../net/remote/host-options.ts';
export { RemoteCollectors } from '../net/remote/remote-collectors.ts';
export type { RemoteCollectorsOptions } from '../net/remote/remote-options.ts';
export type { RemoteStatistics } from '../net/remote/reports.ts';
export type {
  RemoteHostState,
  RemoteHostStatus,
  RemoteSpread,
  RemoteStatus,
} from '../run/collectors/remote-status.ts';
