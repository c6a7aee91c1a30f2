/**
 * Manual ticks in one loop. The pipeline packs and copies the batch of tick t+1 while tick t's
 * batch is on the device and in use.
 */
import { ReplayBuffer, ReplayPipeline } from '../../src/index.ts';

const rows = 64;
const buffer = ReplayBuffer.create({
  capacity: 1000,
  fields: { obs: { shape: [4] }, reward: { shape: [] } },
});
buffer.add({
  obs: Float32Array.from({ length: 400 }, (_, i) => i),
  reward: new Float32Array(100).fill(1),
});

await using pipeline = await ReplayPipeline.open({ buffer, device: 'auto', sampleCount: rows });
console.log(`on ${pipeline.transferManifest.device} by ${pipeline.transferManifest.h2dSubmitter}`);

pipeline.startPrepare(0, rows);
for (let tick = 0; tick < 3; tick++) {
  // Waits until the batch is on the device.
  const batch = await pipeline.sampleLargeBatch(tick, rows);
  if (tick + 1 < 3) pipeline.startPrepare(tick + 1, rows); // prepares the next batch meanwhile
  // A real learner enqueues device work on batch.obs instead.
  const obs = await batch.obs!.toArray();
  console.log(
    `tick ${tick}: ${batch.obs!.shape.join(' × ')} observations, the first is [${obs.slice(0, 4)}]`,
  );
  // Call it after the learner's work is enqueued. The pipeline reuses the slot after that work.
  pipeline.afterTick();
}
