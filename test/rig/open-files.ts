/** Lists the open descriptors of this process, for tests that check that none is left. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/**
 * Returns what each descriptor is. For a socket it adds the addresses and the state. Files of
 * modules are left out, because Node leaves a file open if a thread is terminated while it loads
 * the file.
 */
export function openFiles(): string[] {
  const tcp = new Map<string, string>();
  for (const line of ['tcp', 'tcp6'].flatMap((name) =>
    readFileSync(`/proc/net/${name}`, 'utf8').split('\n').slice(1),
  )) {
    const [, from, to, state, , , , , , inode] = line.trim().split(/\s+/);
    if (inode) tcp.set(`socket:[${inode}]`, `tcp ${from} to ${to} in state ${state}`);
  }
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const to = readlinkSync(`/proc/self/fd/${fd}`);
      return /\.[cm]?js$/.test(to) ? [] : [`${fd} ${tcp.get(to) ?? to}`];
    } catch {
      return []; // the descriptor of this directory listing
    }
  });
}
