/**
 * Runs `npm run test:gpu -- [device]`: all tests that need a real device, each unit in its own
 * process, with one verdict.
 */
import { parseArgs } from 'node:util';
import { listDevices } from '../../src/index.ts';
import { parts, type Result, runUnit } from './units.ts';

const usage = `usage: npm run test:gpu -- [device] [--only PART,…] [--limit SECONDS] [--once] [--json]
device: cuda:0, rocm:0, xpu:0, …; the first available accelerator by default
parts:  ${Object.keys(parts).join(', ')}
--limit is what one process of tests may take (120); a hanging one is ended, told and left behind
--once runs nothing again alone that failed, nor what a hanging test kept from running: for a first look`;

class Refusal extends Error {}

function commandLine() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        only: { type: 'string' },
        limit: { type: 'string', default: '120' },
        once: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      console.log(usage);
      process.exit(0);
    }
    const chosen = values.only?.split(',') ?? Object.keys(parts);
    const unknown = chosen.find((part) => !Object.hasOwn(parts, part));
    if (unknown !== undefined) throw new Refusal(`there is no part '${unknown}'\n${usage}`);
    const limit = Number(values.limit);
    if (!(limit > 0)) throw new Refusal(`--limit must be a number above 0, got '${values.limit}'`);
    if (positionals.length > 1)
      throw new Refusal(`one device at a time, got ${positionals.join(' ')}`);
    return {
      chosen,
      limitMs: limit * 1000,
      once: values.once,
      json: values.json,
      device: positionals[0],
    };
  } catch (error) {
    throw error instanceof Refusal ? error : new Refusal(`${(error as Error).message}\n${usage}`);
  }
}

/** Returns the device to test. Throws with the reason if there is none. */
function chooseDevice(name: string | undefined) {
  const all = listDevices().filter(({ family }) => family !== 'host');
  const available = all.filter((each) => each.available);
  const device = name === undefined ? available[0] : available.find((each) => each.name === name);
  if (device) return device;
  const reasons = all
    .filter((each) => !each.available)
    .map((each) => `${each.name}: ${each.reason}`);
  const there = available.map((each) => each.name).join(', ');
  const wanted =
    name === undefined
      ? 'there is no accelerator to test'
      : `there is no accelerator '${name}' to test`;
  throw new Refusal([`${wanted}${there ? `; there is ${there}` : ''}`, ...reasons].join('\n  '));
}

function print({ part, unit, passes, pending, failures, seconds }: Result): void {
  const counts = [
    `${passes} passed`,
    failures.length > 0 && `${failures.length} failed`,
    pending > 0 && `${pending} left out`,
  ];
  console.log(
    `${part.padEnd(9)} ${unit.padEnd(56)} ${counts.filter(Boolean).join(', ')}  ${seconds.toFixed(1)} s`,
  );
  for (const { title, error, alone } of failures) {
    console.log(
      `    ${title}${alone ? ` (alone it ${alone})` : ''}\n      ${error.split('\n').slice(0, 6).join('\n      ')}`,
    );
  }
}

async function main(): Promise<number> {
  const { chosen, limitMs, once, json, device: name } = commandLine();
  const device = chooseDevice(name);
  if (!json) console.log(`${device.name}: ${device.description}\n`);
  const begin = performance.now();
  const results: Result[] = [];
  for (const part of chosen) {
    for (const unit of (await parts[part]?.(device.name)) ?? []) {
      const result = await runUnit(device.name, unit, limitMs, once);
      results.push(result);
      if (json) console.log(JSON.stringify(result));
      else print(result);
    }
  }
  const sum = (of: (result: Result) => number) =>
    results.reduce((total, result) => total + of(result), 0);
  const failed = sum(({ failures }) => failures.length);
  const summary = {
    summary: true,
    device: device.name,
    description: device.description,
    passes: sum(({ passes }) => passes),
    failures: failed,
    pending: sum(({ pending }) => pending),
    seconds: (performance.now() - begin) / 1000,
  };
  if (json) console.log(JSON.stringify(summary));
  else
    console.log(
      `\n${summary.passes} passed, ${failed} failed, ${summary.pending} left out in ${summary.seconds.toFixed(0)} s`,
    );
  return failed === 0 && summary.passes > 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
