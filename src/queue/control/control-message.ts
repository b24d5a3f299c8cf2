import { z } from 'zod';
import { policyRecordSchema } from './policy-record.ts';

/** A message on the control channel. Each repeats what a key says as well, so that a lost one loses only time. */
const controlMessageSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('end'),
    target: z.enum(['run', 'group', 'episode']),
    id: z.string(),
    reason: z.enum(['cancelled', 'stale']),
  }),
  z.object({ type: z.literal('policy'), state: policyRecordSchema }),
]);
export type ControlMessage = z.infer<typeof controlMessageSchema>;

/** null for what is no message of a kind this code knows: a newer publisher may say more. */
export function parseControlMessage(text: string): ControlMessage | null {
  try {
    return controlMessageSchema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}
