/** The manual contract in one loop: tick t+1 is packed and copied while tick t's batch is hot. */
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
  const batch = await pipeline.sampleLargeBatch(tick, rows); // waits until it is hot
  if (tick + 1 < 3) pipeline.startPrepare(tick + 1, rows); // the next one gets ready meanwhile
  const obs = await batch.obs!.toArray(); // a real learner enqueues device work on batch.obs instead
  console.log(
    `tick ${tick}: ${batch.obs!.shape.join(' × ')} observations, the first is [${obs.slice(0, 4)}]`,
  );
  pipeline.afterTick(); // the learner's work is enqueued: the slot may be reused behind it
}
