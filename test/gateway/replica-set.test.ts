import { pino } from 'pino';
import { expect, test } from 'vitest';
import { ReplicaSet } from '../../src/gateway/policy/replica-set.ts';

test('an outage of the policy is told once, however many calls it holds, and so is its end', async () => {
  const lines: { level: number; msg: string; policy: string[] }[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line)) });
  const replicas = new ReplicaSet(['http://127.0.0.1:1'], undefined, log);
  const held = [replicas.hold(), replicas.hold(), replicas.hold()];
  expect(lines).toMatchObject([{ level: 40, policy: ['http://127.0.0.1:1'] }]);
  for (const one of held) one[Symbol.dispose]();
  expect(lines.map(({ level }) => level)).toEqual([40, 30]);
  replicas.hold()[Symbol.dispose]();
  expect(lines.map(({ level }) => level)).toEqual([40, 30, 40, 30]);
  await replicas.close();
});
