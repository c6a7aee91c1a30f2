/**
 * A process into which fault_shim.c injects faults. It saves a run, changes the run, and saves
 * again with a fault ahead. Its arguments are a folder, the kind of run, and "MODE:N" for a process
 * that is to die. If "first" follows, the fault is in the first save, including open(). Without
 * "MODE:N" the process makes every call fail that can fail, each in a folder of its own, and prints
 * the outcomes.
 */
import { join } from 'node:path';
import { Checkpoint } from '../../src/index.ts';
import { change, changed, filesIn, type Kind, make, namedIn, restored } from './rig.ts';
import { tell } from './shim.ts';

/** The outcome of a call that failed. */
export interface Failed {
  mode: string;
  at: number;
  /** code and message of save()'s rejection, or null if save() resolved */
  error: { code: string; message: string } | null;
  /** whether the files of the previous checkpoint are unchanged */
  untouched: boolean;
  /** files that the manifest does not name */
  left: string[];
  restored: string;
  /** the same after a later save */
  later: { left: string[]; restored: string };
}

const [folder = '', kind = 'rows', fault, stride = '1', first = '0'] = process.argv.slice(2) as [
  string,
  Kind,
  string,
  string,
];

/**
 * Makes a call of the first save fail, so that there is no previous checkpoint. `restored` is empty
 * if the folder has no checkpoint. Returns null if the save made fewer calls than `at`.
 */
async function failsFirst(mode: string, at: number): Promise<Failed | null> {
  const mine = join(folder, `first-${mode}-${at}`);
  const run = await changed(kind, 1);
  const saving = async () => {
    const checkpoint = await Checkpoint.open(mine, run.parts);
    await checkpoint.save().finally(() => checkpoint.close());
  };
  tell(`${mode}:${at}`);
  const error = await saving().then(
    () => null,
    ({ code, message }: { code: string; message: string }) => ({ code, message }),
  );
  const struck = tell('over');
  const print = async () => {
    const again = await make(kind);
    const found = await Checkpoint.restore(mine, again.parts);
    const told = found ? await again.print() : '';
    await again.close();
    return told;
  };
  const found = await print();
  await saving();
  const named = await namedIn(mine);
  const left = Object.keys(filesIn(mine)).filter((name) => !named.includes(name));
  const later = { left, restored: await print() };
  await run.close();
  return struck ? { mode, at, error, untouched: true, left, restored: found, later } : null;
}

async function fails(mode: string, at: number): Promise<Failed | null> {
  const mine = join(folder, `${mode}-${at}`);
  const run = await changed(kind, 1);
  const checkpoint = await Checkpoint.open(mine, run.parts);
  await checkpoint.save();
  const before = filesIn(mine);
  await change(run, 2);
  tell(`${mode}:${at}`);
  const error = await checkpoint.save().then(
    () => null,
    ({ code, message }: { code: string; message: string }) => ({ code, message }),
  );
  const struck = tell('over');
  const after = filesIn(mine);
  const untouched = Object.entries(before).every(([name, sum]) => after[name] === sum);
  const stray = async () => {
    const named = await namedIn(mine);
    return Object.keys(filesIn(mine)).filter((name) => !named.includes(name));
  };
  const left = await stray();
  await checkpoint.close();
  const found = await restored(kind, mine);
  await found.run.close();
  const again = await Checkpoint.open(mine, run.parts).catch(() => null);
  await again?.save();
  await again?.close();
  const then = await restored(kind, mine);
  await Promise.all([run.close(), then.run.close()]);
  const later = { left: await stray(), restored: then.print };
  return struck ? { mode, at, error, untouched, left, restored: found.print, later } : null;
}

if (fault === 'read-only') {
  const run = await changed(kind, 1);
  const checkpoint = await Checkpoint.open(folder, run.parts);
  await checkpoint.save();
  await checkpoint.close();
  const fresh = await make(kind);
  tell('fail-read-only:0');
  const error = await Checkpoint.open(folder, run.parts).catch(({ code, message }) => ({
    code,
    message,
  }));
  // restore() must work in a folder that cannot be changed.
  await Checkpoint.restore(folder, fresh.parts);
  tell('over');
  console.log(JSON.stringify({ error, restored: await fresh.print() }));
  await Promise.all([run.close(), fresh.close()]);
} else if (fault?.includes(':') && stride === 'first') {
  const run = await changed(kind, 1);
  tell(fault);
  const checkpoint = await Checkpoint.open(folder, run.parts);
  await checkpoint.save();
  tell('over');
  await checkpoint.close();
  await run.close();
} else if (fault?.includes(':')) {
  const run = await changed(kind, 1);
  const checkpoint = await Checkpoint.open(folder, run.parts);
  await checkpoint.save();
  await change(run, 2);
  tell(fault);
  await checkpoint.save();
  tell('over');
  await checkpoint.close();
  await run.close();
} else {
  const told: Failed[] = [];
  for (const mode of ['fail-io', 'fail-full', 'fail-read-only'])
    for (let at = Number(first); ; at += Number(stride)) {
      const failed = await (fault === 'first errors' ? failsFirst : fails)(mode, at);
      if (!failed) break;
      told.push(failed);
    }
  console.log(JSON.stringify(told));
}
