/** Whole programs and their input: requests to a monitor, command lines, environment variables. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { serveMonitor } from '../../src/entries/monitor.ts';
import { openDevice, ReplayBuffer, ReplayPipeline } from '../../src/index.ts';
import { damaged, edited, texts } from './edits.ts';
import type { Kind } from './target.ts';
import { type Gen, list, record, type Value } from './values.ts';

const get = (path: string, more = '') =>
  Buffer.from(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n${more}\r\n`, 'latin1');
const requests: Readonly<Record<string, Uint8Array>> = {
  page: get('/'),
  metrics: get('/metrics'),
  events: get('/events'),
  query: get('/trace?seconds=1&x=%41'),
  head: Buffer.from('HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n'),
  post: Buffer.from('POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc'),
  chunked: get('/', 'Transfer-Encoding: chunked\r\n'),
  origin: get('/', 'Origin: http://elsewhere\r\n'),
  upgrade: get('/', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'),
  twice: Buffer.concat([get('/metrics'), get('/events')]),
  old: Buffer.from('GET / HTTP/1.0\r\n\r\n'),
  long: get(`/${'a'.repeat(9000)}`),
};

/**
 * Sends these bytes to a monitor. Returns its response as soon as there is enough of it to judge.
 */
function answered(port: number, bytes: Uint8Array): Promise<string> {
  const sent = Buffer.from(
    Buffer.from(bytes).toString('latin1').replaceAll('PORT', String(port)),
    'latin1',
  );
  return new Promise((resolve) => {
    let heard = '';
    const socket = connect(port, '127.0.0.1', () => socket.end(sent));
    socket.setEncoding('latin1').on('data', (part: string) => {
      heard += part;
      if (heard.includes('\r\n\r\n')) socket.destroy();
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(heard));
  });
}

export const http = (device: string): Kind => ({
  draw: (random) => ({ form: 'request($)', values: [damaged(Object.keys(requests))(random)] }),
  async open() {
    const buffer = ReplayBuffer.offPolicy({ capacity: 4, obsDim: 1, actionDim: 1 });
    const pipeline = await ReplayPipeline.open({
      buffer,
      device,
      sampleCount: 1,
      placement: 'inline',
    });
    const monitor = await serveMonitor({ pipeline, devices: [openDevice(device)] });
    const look = () => JSON.stringify(pipeline.inspect());
    const before = look();
    return {
      scope: {
        edited,
        samples: requests,
        request: (bytes: Uint8Array) => answered(monitor.port, bytes),
      },
      judge: (answer) => {
        if (look() !== before) return `the pipeline was ${before} and is ${look()}`;
        const first = String(answer).split('\r\n')[0] as string;
        return first === '' || /^HTTP\/1\.1 [1234]\d\d /.test(first)
          ? null
          : `it answered ${first}`;
      },
      async close() {
        const page = await answered(monitor.port, requests.page as Uint8Array);
        await monitor.close();
        await pipeline.close();
        if (!page.startsWith('HTTP/1.1 200 '))
          throw new Error(`the monitor says no more than ${page.slice(0, 60)}`);
      },
    };
  },
  inOnePlace: 200,
  patience: 8000,
});

const main = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));
const MAX_MS = 20_000;

interface Ran {
  code: number | null;
  signal: string | null;
  said: string;
}

function hotslot(
  cwd: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [main, ...args], {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let said = '';
    for (const out of [child.stdout, child.stderr])
      out.on('data', (part: Buffer) => (said += part.toString()));
    const late = setTimeout(() => child.kill('SIGKILL'), MAX_MS);
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(late);
      resolve({ code, signal, said });
    });
  });
}

/**
 * Returns what is wrong with a run of the command, or null. The exit code must be one that the help
 * lists, and the output must have no stack trace.
 */
function judged({ code, signal, said }: Ran): string | null {
  if (signal) return `it ended with ${signal}: ${said.slice(-300)}`;
  if (code === null || ![0, 1, 2, 130].includes(code))
    return `its exit code is ${code}: ${said.slice(-300)}`;
  const stack = /\n\s+at .*/.exec(said);
  return stack ? `it printed a stack: ${said.slice(0, stack.index + 120)}` : null;
}

function programs(draw: Kind['draw']): Kind {
  return {
    draw,
    async open() {
      const folder = mkdtempSync(join(tmpdir(), 'hotslot-fuzz-cli-'));
      const close = async () => rmSync(folder, { recursive: true, force: true });
      const run = (args: readonly string[], env?: Readonly<Record<string, string>>) =>
        // The system accepts no argument with a zero byte.
        hotslot(
          folder,
          args.map((arg) => arg.replaceAll('\0', '?')),
          env,
        );
      return { scope: { hotslot: run }, judge: (answer) => judged(answer as Ran), close };
    },
    inOnePlace: 50,
    patience: 2 * MAX_MS,
  };
}

const word = texts(
  'inspect',
  'kernels',
  'acl',
  'hosts',
  'collect',
  'doctor',
  '--help',
  '--version',
  'help',
  '-h',
);
const option = texts(
  '--json',
  '--run',
  '--url',
  '--insecure',
  '--ca',
  '--out',
  '--arch',
  '--entry',
  '--workers',
  '--lanes',
  '--outbox',
  '--name',
  '--run=x',
  '--workers=3',
  '--url=x://y',
  '--json=1',
  '--',
);
const given = texts(
  'x',
  'run-1',
  '2',
  'nowhere.gk',
  'folder',
  'redis://example.org',
  'http://127.0.0.1:1',
);

/** Draws no `build`, which compiles for minutes, and no server that the command would wait for. */
const commandLine: Gen = (random) => {
  const { list: words } = list((each) => (each.below(2) ? option : given)(each), 0, 5)(random) as {
    list: readonly Value[];
  };
  const all = [...(random.below(8) ? [word(random)] : []), ...words];
  return { list: all.filter((each) => !('code' in each && /^"?build"?$/.test(each.code))) };
};
export const commands = (): Kind =>
  programs((random) => ({ form: 'hotslot($)', values: [commandLine(random)] }));

const variables = [
  'HOTSLOT_CUDA',
  'HOTSLOT_HIP',
  'HOTSLOT_LEVEL_ZERO',
  'HOTSLOT_BLAS',
  'HOTSLOT_CUBLAS',
  'HOTSLOT_OWN_PRODUCTS',
  'HOTSLOT_NVRTC',
  'HOTSLOT_HIPRTC',
  'HOTSLOT_CACHE',
  'HOTSLOT_REDIS_PASSWORD',
  'HOTSLOT_ADDONS',
  'HOTSLOT_MPI',
  'ZE_ENABLE_ALT_DRIVERS',
  'CUDA_VISIBLE_DEVICES',
];
const value = texts('none', '', '/', '/etc/passwd', '/nowhere/x.so', 'libc.so.6', 'x', '0', '-1');
const settings = record({}, Object.fromEntries(variables.map((name) => [name, value])));
export const environment = (): Kind =>
  programs((random) => ({ form: "hotslot(['doctor', '--json'], $)", values: [settings(random)] }));
