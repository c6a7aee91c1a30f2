/**
 * The state of collectors on other machines, as the live page gets it. It has at most `MAX_HOSTS`
 * hosts, failed and refused ones first.
 */

import type { RemoteHostState, RemoteHostStatus } from '../../run/collectors/remote-status.ts';
import type { RemoteWatched } from '../../run/collectors/watched.ts';

/** Maximum number of hosts that the page gets. */
const MAX_HOSTS = 50;
/**
 * Maximum characters of a host's name and of its reason for leaving. Both texts come from the host.
 */
const MAX_CHARACTERS = 200;

/** States in their order on the page. */
const states = [
  'failed',
  'refused',
  'silent',
  'live',
  'ended',
] as const satisfies readonly RemoteHostState[];

export interface RemoteNow extends Omit<RemoteWatched, 'time' | 'epoch' | 'run'> {
  /** number of all hosts by their state */
  readonly states: Readonly<Record<RemoteHostState, number>>;
  /** number of hosts that are not in `hosts` */
  readonly more: number;
}

export function remoteNow({
  time: _time,
  epoch: _epoch,
  run: _run,
  hosts,
  ...rest
}: RemoteWatched): RemoteNow {
  const by = Object.fromEntries(states.map((state) => [state, [] as RemoteHostStatus[]]));
  for (const host of hosts) by[host.state]?.push(host);
  const shown = states.flatMap((state) => by[state]?.slice(0, MAX_HOSTS) ?? []).slice(0, MAX_HOSTS);
  const counts = Object.fromEntries(states.map((state) => [state, by[state]?.length ?? 0]));
  return {
    ...rest,
    states: counts as Record<RemoteHostState, number>,
    hosts: shown.map((host) => ({ ...host, host: cut(host.host), why: cut(host.why) })),
    more: hosts.length - shown.length,
  };
}

const cut = (text: string) =>
  text.length <= MAX_CHARACTERS ? text : `${text.slice(0, MAX_CHARACTERS - 1)}…`;
