/** Runs the device contract on every device of this machine. */
import { listDevices } from '../../src/index.ts';
import { deviceContract } from './contract.ts';

for (const { name, available, reason } of listDevices()) {
  if (available) deviceContract(name);
  else it.skip(`device contract on ${name}: ${reason}`);
}
