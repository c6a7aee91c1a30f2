/**
 * Child processes of the example: a server if the user names none, and collector hosts. They end
 * with this process, which ends them by their ids.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Refused } from '../command-line.ts';
import type { Address } from './address.ts';

/**
 * Time between the first and the second SIGTERM to a child. A host that ends waits until the
 * learner has its last rows. Nobody needs them now, so the second SIGTERM ends that wait.
 */
const HURRY_MS = 500;
/** Time after which a child that has not ended is killed. */
const END_MS = 8000;
const running = new Set<ChildProcess>();
// Kills the children however this process ends, except by SIGKILL.
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** A child process. It keeps the end of its stderr, which contains the reason if it fails. */
interface Child extends AsyncDisposable {
  readonly process: ChildProcess;
  readonly said: () => string;
  /** resolves with the exit code after the process has ended */
  readonly ended: Promise<number | null>;
}

/**
 * Starts a child process. `detached` keeps a terminal's Ctrl-C from the child, because this process
 * ends its children in order.
 */
function start(program: string, args: readonly string[], env = process.env): Child {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true, env });
  running.add(child);
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-2000);
  });
  const ended = new Promise<number | null>((resolve) => {
    child.once('error', (error) => {
      said = error.message;
      running.delete(child);
      resolve(1);
    });
    child.once('close', (code) => {
      running.delete(child);
      resolve(code);
    });
  });
  const end = async () => {
    child.kill('SIGTERM');
    const hurry = setTimeout(() => child.kill('SIGTERM'), HURRY_MS);
    const late = setTimeout(() => child.kill('SIGKILL'), END_MS);
    await ended;
    clearTimeout(hurry);
    clearTimeout(late);
  };
  return { process: child, said: () => said.trim(), ended, [Symbol.asyncDispose]: end };
}

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** Returns the path of redis-server or valkey-server, or null if PATH contains neither. */
function serverProgram(): string | null {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const paths = ['redis-server', 'valkey-server'].flatMap((name) =>
    folders.map((folder) => join(folder, name)),
  );
  return paths.find(isProgram) ?? null;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Starts a server on a free port. Only this machine can connect to it, and it saves nothing. */
export async function startServer(): Promise<AsyncDisposable & { url: string }> {
  const program = serverProgram();
  if (program === null)
    throw new Refused(
      'there is no redis-server or valkey-server in PATH: apt-get install redis-server, or name a server that runs already by --url',
    );
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-remote-'));
  const settings = {
    port,
    bind: '127.0.0.1',
    save: '',
    appendonly: 'no',
    dir: folder,
    maxmemory: '256mb',
  };
  const child = start(
    program,
    Object.entries({ ...settings, 'maxmemory-policy': 'noeviction' }).flatMap(([name, value]) => [
      `--${name}`,
      `${value}`,
    ]),
  );
  const end = async () => {
    await child[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  };
  let said = '';
  const ready = new Promise<boolean>((resolve) => {
    child.process.stdout?.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      if (/ready to accept connections/i.test(said)) resolve(true);
    });
    child.ended.then(() => resolve(false));
  });
  if (await ready) return { url: `redis://127.0.0.1:${port}`, [Symbol.asyncDispose]: end };
  const reason = child.said() || said.trim().split('\n').at(-1);
  await end();
  throw new Refused(`${program} did not start: ${reason}`);
}

const HOTSLOT = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));
const COLLECTOR = fileURLToPath(new URL('./collector.js', import.meta.url));

export interface HostsAsked {
  readonly address: Address;
  readonly run: string;
  readonly hosts: number;
  readonly outbox: number;
  readonly insecure: boolean;
  readonly ca: string | undefined;
}

const PASSWORD = 'HOTSLOT_REDIS_PASSWORD';

/**
 * Returns the arguments of `hotslot` on a machine that collects for this learner. They exclude the
 * password, because any process on the machine can read a command line.
 */
const hostCommand = ({
  address,
  run,
  outbox,
  insecure,
  ca,
}: Omit<HostsAsked, 'hosts'>): string[] => [
  'collect',
  '--url',
  address.shown,
  '--run',
  run,
  '--entry',
  COLLECTOR,
  '--outbox',
  `${outbox}`,
  ...(insecure ? ['--insecure'] : []),
  ...(ca === undefined ? [] : ['--ca', ca]),
];

/** Returns the same command as a line that a person can type. */
export const hostLine = (asked: Omit<HostsAsked, 'hosts'>): string =>
  [
    ...(asked.address.password || process.env[PASSWORD] ? [`${PASSWORD}=…`] : []),
    'npx hotslot',
    ...hostCommand(asked),
  ].join(' ');

/**
 * Starts collector hosts on this machine. `failed` rejects if a host ends before it is asked to.
 */
export function startHosts(asked: HostsAsked): AsyncDisposable & { failed: Promise<never> } {
  let ending = false;
  const { password } = asked.address;
  const env = { ...process.env, ...(password !== undefined && { [PASSWORD]: password }) };
  const children = Array.from({ length: asked.hosts }, (_, at) =>
    start(
      process.execPath,
      [HOTSLOT, ...hostCommand(asked), '--name', `host-${at + 1}`, '--json'],
      env,
    ),
  );
  for (const { process } of children) process.stdout?.resume();
  const failed = new Promise<never>((_, reject) => {
    for (const { ended, said } of children)
      ended.then((code) => {
        if (!ending) reject(new Refused(`a collector host ended with ${code}: ${said()}`));
      });
  });
  failed.catch(() => {}); // the caller of startHosts() awaits it
  const end = async () => {
    ending = true;
    await Promise.all(children.map((child) => child[Symbol.asyncDispose]()));
  };
  return { failed, [Symbol.asyncDispose]: end };
}
