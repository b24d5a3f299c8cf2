import { expect, test } from 'vitest';
import { EngineLoad, parseEngineLoad } from '../../../src/gateway/policy/engine-load.ts';
import { until } from '../../support/wait.ts';

const page = (
  running: number,
  waiting: number,
): string => `# HELP vllm:num_requests_running Number of requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a b{c}"} ${running}.0
vllm:num_requests_waiting{engine="0",model_name="m"} ${waiting}.0
vllm:num_requests_waiting_by_reason{engine="0"} 99.0
vllm:kv_cache_usage_perc{engine="0"} 0.5
`;

test.each([
  ['vLLM', page(3, 2), 5],
  ['several engines behind one server', page(3, 2) + page(10, 0), 15],
  ['SGLang', 'sglang:num_running_reqs{model_name="m"} 4\nsglang:num_queue_reqs{model_name="m"} 1e1\n', 14],
  ['an idle one', page(0, 0), 0],
  ['another server', 'http_requests_total 7\n', null],
  ['a page with no number', 'vllm:num_requests_running NaN\n', null],
])('the load of %s is read off its metrics', (_name, text, load) => {
  expect(parseEngineLoad(text)).toBe(load);
});

test('nobody waits for the metrics, and a server without them is not asked at every call', async () => {
  const asked: string[] = [];
  let answer = (_reply: { status: number; text: string }): void => {};
  const replica = {
    request: (_method: string, path: string) => {
      asked.push(path);
      return new Promise((resolve) => (answer = resolve));
    },
  } as unknown as ConstructorParameters<typeof EngineLoad>[0];
  const load = new EngineLoad(replica, new AbortController().signal);
  expect([load.requests, load.requests]).toEqual([null, null]);
  expect(asked).toEqual(['/metrics']);
  answer({ status: 200, text: page(1, 1) });
  await until(() => load.requests === 2, 'the figure is there');
  const none = new EngineLoad(replica, new AbortController().signal);
  expect(none.requests).toBeNull();
  answer({ status: 404, text: page(1, 1) });
  await new Promise(setImmediate);
  expect([none.requests, none.requests, asked.length]).toEqual([null, null, 2]);
});
