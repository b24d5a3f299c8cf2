// The episode of bench/fleet: five tool calls and a verifier.
import { fleetTaskSchema, type FleetTask } from '../src/contracts/index.ts';

export const fleetKey = 'bench-key';
export const prompt = 'bench: look around in the workshop';

export const calls = [
  { name: 'list_staff', arguments: {} },
  { name: 'find_customers', arguments: { text: 'Lindqvist' } },
  { name: 'get_customer', arguments: { customer_id: 101 } },
  { name: 'find_jobs', arguments: { status: 'booked', limit: 20 } },
  { name: 'send_message', arguments: { customer_id: 101, body: 'Your bike is ready.' } },
] as const;

export const verifierCode = `def validate_task(env, final_answer=None):
    return 1 if len(env.db("current").table("messages").eq("customer_id", 101).all()) > 0 else 0
`;

export function benchTask(key: string): FleetTask {
  return fleetTaskSchema.parse({
    task_key: key,
    kind: 'fleet',
    prompt,
    env_key: 'bike-workshop',
    verifier_code: verifierCode,
  });
}
