/**
 * `hotslot doctor`: prints findings about this machine: what works, what is missing, and what to do
 * about it.
 */
import { createRequire } from 'node:module';
import { availableParallelism, cpus, freemem, totalmem } from 'node:os';
import { loadAddon } from '../base/addon.ts';
import { coresNow } from '../base/cores.ts';
import { nativeKernels } from '../device/native.ts';
import { listDevices } from '../device/open.ts';
import { placementOf } from '../engine/pipeline/options.ts';
import { asJson, asText, type Finding } from './finding.ts';
import { selfTest } from './self-test.ts';

interface CommandContext {
  version: string;
  json: boolean;
  print(text: string): void;
}

const addons = ['system', 'device', 'rows', 'pack', 'submit', 'poll', 'replay', 'ranks'] as const;
const gigabytes = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;

/** Prints all findings. Resolves with exit code 0 if the CPU device works, else 1. */
export async function doctor({ version, json, print }: CommandContext): Promise<0 | 1> {
  const report = (finding: Finding) => print(json ? asJson(finding) : asText(finding));
  for (const finding of machine(version)) report(finding);
  const found = addons.map(addon);
  for (const finding of found) report(finding);
  const built = found.every(({ ok }) => ok);
  let hostOk = false;
  const available: string[] = [];
  if (built) {
    for (const finding of [cores(), blas(), placement()]) report(finding);
    for (const { name, family, available: there, reason, description } of listDevices()) {
      const text = there
        ? (description ?? 'available')
        : `not available: ${reason ?? 'no reason was given'}`;
      report({
        check: name,
        ok: there,
        text,
        facts: { family, available: there, reason, description },
      });
      if (!there) continue;
      const tested = await test(name);
      report(tested);
      if (tested.ok) available.push(name);
      if (family === 'host' && tested.ok) hostOk = true;
    }
  }
  const summary = { ok: hostOk, version, node: process.versions.node, devices: available };
  const sentence = hostOk
    ? `Hotslot works here on ${available.join(', ')}.`
    : 'Hotslot does not work here yet; see above.';
  print(json ? `${JSON.stringify(summary)}\n` : `\n${sentence}\n`);
  return hostOk ? 0 : 1;
}

function machine(version: string): Finding[] {
  const { node } = process.versions;
  const [major = 0, minor = 0] = node.split('.').map(Number);
  const newEnough = major > 20 || (major === 20 && minor >= 19);
  const cores = availableParallelism();
  const model = cpus()[0]?.model.trim() ?? process.arch;
  const [total, free] = [totalmem(), freemem()];
  return [
    { check: 'hotslot', ok: true, text: version, facts: { version } },
    {
      check: 'node',
      ok: newEnough,
      text: `${node} on ${process.platform}-${process.arch}`,
      ...(newEnough ? {} : { advice: 'install Node 20.19 or newer' }),
      facts: { version: node, platform: process.platform, arch: process.arch },
    },
    {
      check: 'cpu',
      ok: true,
      text: `${cores} ${cores === 1 ? 'core' : 'cores'} of ${model}`,
      facts: { cores, model },
    },
    {
      check: 'memory',
      ok: true,
      text: `${gigabytes(free)} free of ${gigabytes(total)}`,
      facts: { total, free },
    },
  ];
}

/**
 * Loads an addon, and returns a finding with its path, or with the reason why it cannot be loaded.
 */
function addon(name: string): Finding {
  const check = `addon ${name}`;
  try {
    loadAddon(name);
    // The keys of the cache are the paths of all loaded native modules.
    const path = Object.keys(createRequire(import.meta.url).cache).find((file) =>
      file.endsWith(`/${name}.node`),
    );
    return { check, ok: true, text: path ?? 'loaded', facts: { path } };
  } catch (error) {
    const [text = '', ...more] = (error as Error).message.split('\n');
    const advice = more.pop();
    return { check, ok: false, text: [text, ...more].join('\n'), ...(advice ? { advice } : {}) };
  }
}

function cores(): Finding {
  const { cores, threads, helpers } = coresNow();
  const allowed = process.env.HOTSLOT_CORES ? ` (HOTSLOT_CORES=${process.env.HOTSLOT_CORES})` : '';
  const own = cores === 1 ? 'the process may use 1 core' : `the process may use ${cores} cores`;
  const more =
    helpers === 0
      ? 'one thread does a large job'
      : `up to ${helpers + 1} threads share a large job`;
  return {
    check: 'cores',
    ok: true,
    text: `${own}${allowed}: ${more}`,
    facts: { cores, threads, helpers },
  };
}

function blas(): Finding {
  const provider = nativeKernels().gemmProvider;
  const [, set = '', why = ''] = /^built-in(?:, ([\w-]+))?(?: \((.*)\))?$/.exec(provider) ?? [];
  const own = provider.startsWith('built-in');
  return {
    check: 'blas',
    ok: true,
    text: own
      ? `the CPU device multiplies matrices by itself${set && `, with ${set}`}${why && ` (${why})`}`
      : provider,
    // If the CPU lacks the vector instructions of the built-in kernels, OpenBLAS is faster.
    ...(own && !set
      ? { advice: 'for a faster learner on the CPU device: apt-get install libopenblas0-pthread' }
      : {}),
    facts: { provider },
  };
}

function placement(): Finding {
  const { name, reason, threads } = placementOf('auto');
  return {
    check: 'placement',
    ok: true,
    text: `'auto' means ${name} (${reason})`,
    facts: { threads, reason },
  };
}

async function test(name: string): Promise<Finding> {
  const check = `test ${name}`;
  try {
    const { copyMs, tickMs } = await selfTest(name);
    const text = `copied to it and back in ${copyMs.toFixed(1)} ms, one tick through the actors in ${tickMs.toFixed(1)} ms`;
    return { check, ok: true, text, facts: { copyMs, tickMs } };
  } catch (error) {
    const advice = (error as { advice?: string }).advice;
    return { check, ok: false, text: (error as Error).message, ...(advice ? { advice } : {}) };
  }
}
