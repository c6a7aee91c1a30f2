/** The native code without JavaScript, under the sanitizers: they see what no test of results can. */
import { build, environment, type Harness, missing, missingRig, type Rig, run, type Sanitizer } from './harnesses.ts';

// Kernels have no threads of their own.
const plan: [Sanitizer, Harness[]][] = [
  ['thread', ['rows']],
  ['address,undefined', ['rows', 'kernels']],
];

/** Level Zero is three drivers in one: what lists and graphs are made of differs. */
const rigs: Rig[] = [
  { name: 'host', family: 'host', told: {} },
  { name: 'CUDA 13.0', family: 'cuda', told: { HOTSLOT_SOFTWARE_CUDA: '13.0,devices=2' } },
  { name: 'HIP of ROCm 7', family: 'rocm', told: { HOTSLOT_SOFTWARE_HIP: 'devices=2' } },
  { name: 'Level Zero 1.4', family: 'xpu', told: { HOTSLOT_SOFTWARE_ZE: 'spec=1.4,devices=2' } },
  { name: 'Level Zero 1.9', family: 'xpu', told: { HOTSLOT_SOFTWARE_ZE: 'spec=1.9,devices=2' } },
  { name: 'the newest Level Zero', family: 'xpu', told: { HOTSLOT_SOFTWARE_ZE: 'modern,devices=2' } },
];
/** How long a scenario of average length goes on. The host's executor has most to lose. */
const milliseconds = (rig: Rig) => (rig.family === 'host' ? '700' : '300');

describe('native harnesses', function () {
  this.timeout(600_000);

  for (const [sanitizer, harnesses] of plan) {
    describe(`under the ${sanitizer} sanitizer`, () => {
      const why = missing(sanitizer);
      before(function () {
        if (why === null) return;
        console.log(`      skipped: ${why}`);
        this.skip();
      });
      for (const harness of harnesses) it(`${harness}: nothing is found`, () => run(build(harness, sanitizer)));
      for (const rig of rigs)
        it(`core, ${rig.name}: nothing is found`, function () {
          const reason = missingRig(rig);
          if (reason !== null) {
            console.log(`      ${rig.name}: ${reason}`);
            return this.skip();
          }
          const env = environment(rig, sanitizer);
          return run(build('core', sanitizer), [rig.family, milliseconds(rig)], env);
        });
    });
  }
});
