/** Descriptors of this process, for tests that nothing is left. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/**
 * What each descriptor is, and of a socket where it leads and how it stands. Without the files of
 * modules: Node leaves open what a thread was reading when it was ended while it loads them.
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
      return []; // of this very look
    }
  });
}
