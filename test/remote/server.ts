/**
 * Starts Redis or Valkey for a test: a child process on a free port of this machine, with a folder
 * that is removed afterwards.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createClient } from '@redis/client';

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};
const inPath = (name: string): string[] =>
  (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, name));
const PROGRAM =
  process.env.HOTSLOT_TEST_REDIS ??
  [...inPath('redis-server'), ...inPath('valkey-server')].find(isProgram) ??
  null;

/** Why no server can be started here, or null. */
export const NO_SERVER =
  PROGRAM === null
    ? 'no redis-server or valkey-server in PATH (apt-get install redis-server), or HOTSLOT_TEST_REDIS'
    : null;

/** Skips the tests and prints the reason if no server is installed. */
export function needServer(context: Mocha.Context): void {
  if (NO_SERVER === null) return;
  console.log(`      left out: ${NO_SERVER}`);
  context.skip();
}

export interface ServerOptions {
  /**
   * whether it uses TLS, with a certificate of a new authority for this machine or for another name
   */
  tls?: boolean | { name: string };
  /** ACL rules of users, as in the configuration: `default off`, `ann on >secret ~* &* +@all` */
  acl?: readonly string[];
  maxmemory?: string;
  appendonly?: boolean;
  port?: number;
  /** port of the primary, if this is a replica */
  replicaOf?: number;
}

type Client = ReturnType<typeof createClient>;
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export class TestServer {
  readonly port: number;
  /** URL without a user */
  readonly url: string;
  /** file of the authority's certificate; '' without TLS */
  readonly ca: string;
  readonly #options: ServerOptions;
  readonly #folder: string;
  readonly #clients: Client[] = [];
  #child: ChildProcess | null = null;

  constructor(port: number, options: ServerOptions) {
    this.port = port;
    this.#options = options;
    this.#folder = mkdtempSync(join(tmpdir(), 'hotslot-redis-'));
    const { tls } = options;
    this.url = `${tls ? 'rediss' : 'redis'}://127.0.0.1:${port}`;
    this.ca = tls ? join(this.#folder, 'ca.pem') : '';
    if (tls)
      certify(
        this.#folder,
        typeof tls === 'object' ? `DNS:${tls.name}` : 'IP:127.0.0.1,DNS:localhost',
      );
  }
  /** path of its Unix socket */
  get path(): string {
    return join(this.#folder, 'socket');
  }
  get pid(): number {
    return this.#child!.pid!;
  }

  async start(): Promise<void> {
    const { tls, acl = [], maxmemory, appendonly, replicaOf } = this.#options;
    const lines = [
      'bind 127.0.0.1',
      'save ""',
      `dir ${this.#folder}`,
      `appendonly ${appendonly ? 'yes' : 'no'}`,
      `unixsocket ${this.path}`,
      'repl-diskless-sync-delay 0',
      ...(replicaOf === undefined ? [] : [`replicaof 127.0.0.1 ${replicaOf}`]),
      ...(tls
        ? ['port 0', `tls-port ${this.port}`, 'tls-auth-clients no', `tls-ca-cert-file ${this.ca}`]
        : [`port ${this.port}`]),
      ...(tls
        ? ['cert', 'key'].map((what) => `tls-${what}-file ${join(this.#folder, `${what}.pem`)}`)
        : []),
      ...(maxmemory === undefined ? [] : [`maxmemory ${maxmemory}`, 'maxmemory-policy noeviction']),
      ...acl.map((rule) => `user ${rule}`),
    ];
    const file = join(this.#folder, 'server.conf');
    writeFileSync(file, `${lines.join('\n')}\n`);
    const child = spawn(PROGRAM!, [file], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#child = child;
    running.add(child);
    child.once('exit', () => running.delete(child));
    let said = '';
    child.stdout.setEncoding('utf8');
    await new Promise<void>((resolve, reject) => {
      child.stdout.on('data', (text: string) => {
        if (said.length < 1e5) said += text;
        if (/ready to accept connections/i.test(said)) resolve();
      });
      child.once('error', reject);
      child.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
    });
  }

  /**
   * Kills the server, or ends it with another signal. Values that it has not written to disk are
   * lost.
   */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child!;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
  }
  /** Starts the server again. It loads its values from disk if `keep` is true, else it is empty. */
  async restart({ keep = false } = {}): Promise<void> {
    await this.kill();
    if (!keep)
      for (const name of ['appendonlydir', 'dump.rdb'])
        rmSync(join(this.#folder, name), { recursive: true, force: true });
    await this.start();
  }
  /** Suspends the server. Its connections stay open. */
  freeze(): void {
    this.#child!.kill('SIGSTOP');
  }
  thaw(): void {
    this.#child!.kill('SIGCONT');
  }
  /**
   * Returns a connected client for reading and changing the server's contents. It closes with the
   * server.
   */
  async client(user: { username?: string; password?: string } = {}): Promise<Client> {
    const { tls } = this.#options;
    const client = createClient({
      socket: {
        host: '127.0.0.1',
        port: this.port,
        tls: tls ? true : undefined!,
        rejectUnauthorized: false,
      },
      ...user,
    } as Parameters<typeof createClient>[0]) as Client;
    client.on('error', () => {});
    this.#clients.push(client);
    await client.connect();
    return client;
  }
  async stop(): Promise<void> {
    for (const client of this.#clients) client.destroy();
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const server = new TestServer(options.port ?? (await freePort()), options);
  try {
    await server.start();
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Creates ca.pem, and cert.pem and key.pem for these names. */
function certify(folder: string, names: string): void {
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
  const made = [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-days',
    '2',
  ];
  openssl(
    'req',
    '-x509',
    ...made,
    '-keyout',
    'ca-key.pem',
    '-out',
    'ca.pem',
    '-subj',
    '/CN=authority of a test',
  );
  const asked = ['-keyout', 'key.pem', '-out', 'asked.pem', '-subj', '/CN=server of a test'];
  openssl('req', ...made.slice(0, 5), ...asked);
  writeFileSync(join(folder, 'names'), `subjectAltName=${names}\n`);
  const signed = [
    '-CA',
    'ca.pem',
    '-CAkey',
    'ca-key.pem',
    '-CAcreateserial',
    '-days',
    '2',
    '-extfile',
    'names',
  ];
  openssl('x509', '-req', '-in', 'asked.pem', ...signed, '-out', 'cert.pem');
}
