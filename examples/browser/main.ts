/**
 * Runs a policy in the browser. It trains the policy if its file is missing, writes it as ONNX, and
 * serves a page that runs the model.
 */
import { once } from 'node:events';
import { deviceNamed, interruption, runExample } from '../command-line.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';
import { convertCheckpoint, makePolicy } from './policy.ts';
import { serve } from './server.ts';

async function main({
  policy,
  checkpoint,
  port,
  seed,
  device,
  quiet,
}: CommandLine): Promise<number> {
  deviceNamed(device).close();
  const signal = interruption();
  const say = (line: string) => process.stdout.write(`${line}\n`);
  if (checkpoint !== null) await convertCheckpoint(checkpoint, policy);
  const made = await makePolicy(policy, { seed, device, signal, display: !quiet });
  if (made?.interrupted) return 130;
  if (made && !quiet)
    say(
      `${policy}: DQN, trained in ${made.seconds.toFixed(1)} s to a mean return of ${made.meanReturn?.toFixed(1)}`,
    );
  const { server, address } = await serve(policy, port);
  say(`${policy} plays at ${address} (Ctrl-C ends it)`);
  if (!signal.aborted) await once(signal, 'abort');
  server.closeAllConnections();
  server.close();
  return 0;
}

await runExample({ name: 'browser', help, parse: parseCommandLine, main });
