/**
 * Runs a storm over a world. It causes the faults of the schedule one by one, and collects the
 * errors that the world and its own checks report.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { BadNetwork } from '../remote/proxy.ts';
import { startServer, type TestServer } from '../remote/server.ts';
import { withFastFolder } from '../rig/fast-folder.ts';
import { ask } from './client.ts';
import { StormHost } from './host.ts';
import { type Fault, type FaultKind, jumpOf, lasting, scheduleOf } from './schedule.ts';
import { WorldProcess } from './world-process.ts';

export interface StormOptions {
  readonly seed: number;
  readonly seconds: number;
  /** faults per second; 3 by default */
  readonly perSecond?: number;
  /** 'host:0' by default; on a software driver, driver calls fail too */
  readonly device?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** whether the world prints each fault on stderr when it happens */
  readonly verbose?: boolean;
  /** receives a line about the progress every ten seconds */
  readonly print?: (line: string) => void;
}

export interface StormTold {
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>;
  /** sums of the facts of all lives of the world */
  readonly facts: Readonly<Record<string, number>>;
  readonly wrong: readonly string[];
}

const MAX_MS: Partial<Record<FaultKind, number>> = {
  freeze: 400,
  stop: 1500,
  disk: 2000,
  server: 1500,
  host: 2000,
};

/**
 * Builds two shims: one makes calls that change files fail, the other freezes threads and moves the
 * clock. Returns their paths.
 */
function buildShims(folder: string): string {
  return ['checkpoint/fault_shim', 'storm/storm_shim']
    .map((name) => {
      const source = fileURLToPath(new URL(`../../../test/${name}.c`, import.meta.url));
      const library = join(folder, `${name.split('/')[1]}.so`);
      const compiler = process.env.CC ?? 'gcc';
      const flags = ['-O1', '-shared', '-fPIC', '-o', library, source, '-ldl'];
      const { status, stderr, error } = spawnSync(compiler, flags, { encoding: 'utf8' });
      if (status !== 0)
        throw new Error(`${compiler} could not compile ${name}: ${error ?? stderr}`);
      return library;
    })
    .join(' ');
}

class Director {
  readonly faults: Partial<Record<FaultKind, number>> = {};
  readonly #server: TestServer;
  readonly #network: BadNetwork;
  readonly #host: StormHost;
  readonly world: WorldProcess;

  constructor(server: TestServer, network: BadNetwork, host: StormHost, world: WorldProcess) {
    [this.#server, this.#network, this.#host, this.world] = [server, network, host, world];
  }

  /** Causes a fault. Counts the fault only if it was done, because it may have had no target. */
  async strike(fault: Fault): Promise<void> {
    const { kind, pick, size } = fault;
    const ms = kind === 'clock' ? jumpOf(fault) : lasting(size, MAX_MS[kind] ?? 0);
    const done = await this.#do(kind, pick, size, ms);
    if (done !== null) this.faults[kind] = (this.faults[kind] ?? 0) + 1;
  }
  async #do(kind: FaultKind, pick: number, size: number, ms: number): Promise<string | null> {
    const { world } = this;
    switch (kind) {
      case 'stop':
        world.signal('SIGSTOP');
        await wait(ms);
        world.signal('SIGCONT');
        return kind;
      case 'kill':
        await world.kill();
        return kind;
      case 'life':
        await world.newLife();
        return kind;
      case 'client':
        return ask(world, pick, ms + 100);
      case 'host':
        return this.#host.strike(pick, ms);
      case 'server':
        return this.#strikeServer(pick, ms);
      default:
        return world.told({ fault: kind, pick, size, ms });
    }
  }
  async #strikeServer(pick: number, ms: number): Promise<string> {
    const server = this.#server;
    switch (pick % 5) {
      case 0:
        await server.restart();
        return 'comes back empty';
      case 1:
        server.freeze();
        await wait(ms);
        server.thaw();
        return 'stands still';
      case 2:
        this.#network.cut();
        return 'is cut';
      case 3:
        this.#network.stall();
        await wait(ms);
        this.#network.flow();
        return 'is silent';
      default:
        // The server's replies are lost, while requests reach the server and take effect.
        this.#network.mute();
        await wait(ms);
        this.#network.cut();
        return 'is not heard';
    }
  }
}

export function storm(options: StormOptions): Promise<StormTold> {
  const {
    seed,
    seconds,
    perSecond,
    device = 'host:0',
    env = process.env,
    verbose = false,
    print = () => {},
  } = options;
  const schedule = scheduleOf(seed, seconds, { perSecond, drivers: device !== 'host:0' });
  return withFastFolder(async (folder) => {
    const preload = buildShims(folder);
    const runs = join(folder, 'runs');
    mkdirSync(runs);
    const server = await startServer();
    const network = await BadNetwork.open(server.port);
    const url = `redis://127.0.0.1:${network.port}`;
    const wrong: string[] = [];
    const world = new WorldProcess({
      options: { url, folder: runs, seed, device, verbose },
      env: {
        ...env,
        LD_PRELOAD: [env.LD_PRELOAD, preload].filter(Boolean).join(' '),
        FAULT_FOLDER: runs,
      },
      wrong: (text) => wrong.push(text),
    });
    const host = new StormHost(url, (text) => wrong.push(text));
    const director = new Director(server, network, host, world);
    const begin = performance.now();
    const tell = () => {
      const done = Object.values(director.faults).reduce((sum, count) => sum + count, 0);
      const at = ((performance.now() - begin) / 1000).toFixed(0);
      print(`${at} s: ${done} faults, ${world.now()}, ${wrong.length} wrong`);
    };
    const telling = setInterval(tell, 10_000);
    try {
      world.start();
      host.start();
      for (const fault of schedule) {
        await world.up();
        const left = fault.at - (performance.now() - begin);
        if (left > 0) await wait(left);
        if (wrong.length > 0) break;
        await director.strike(fault);
      }
      if (wrong.length === 0) await world.end();
    } catch (error) {
      wrong.push((error as Error).stack ?? String(error));
    } finally {
      clearInterval(telling);
      await world.close();
      await host.close();
      await network.close();
      await server.stop();
    }
    tell();
    return { faults: director.faults, facts: world.facts, wrong };
  });
}
