// The streaming option in bench/gateway: answers passed on while they come, against a direct client of the same policy.
import { shapes, type Size } from './gateway-bodies.ts';
import { call, median, quantile, steady, type Target } from './gateway-load.ts';

const rounds = 5;

/** A client of the policy, and one of the gateway with fresh sessions for so many calls. */
export interface Streams {
  readonly direct: (size: Size) => Target;
  readonly through: (size: Size, calls: number) => Promise<Target>;
  readonly row: (what: string, figures: string) => void;
}

/** Calls one after the other, in turn: whatever else the machine does meets both. */
async function inTurn(
  streams: Streams,
  size: Size,
  count: number,
): Promise<{ direct: Awaited<ReturnType<typeof call>>; gateway: Awaited<ReturnType<typeof call>> }[]> {
  const direct = streams.direct(size);
  const gateway = await streams.through(size, count);
  const made = [];
  for (let number = 0; number < count; number++) {
    made.push({ direct: await call(direct, number), gateway: await call(gateway, number) });
  }
  return made;
}

export async function measureStreams(streams: Streams): Promise<void> {
  for (const size of ['large', 'small'] as const) await inTurn(streams, size, size === 'large' ? 100 : 500);

  const rates = (await inTurn(streams, 'large', 100)).map(({ direct, gateway }) => ({
    direct: (direct.events * 1000) / direct.end,
    gateway: (gateway.events * 1000) / gateway.end,
  }));
  const ratios = rates.map(({ direct, gateway }) => gateway / direct);
  streams.row(
    `chunks a second, streams of ${shapes.large.sampledIds}`,
    `${median(rates.map(({ gateway }) => gateway)).toFixed(0)} against ${median(rates.map(({ direct }) => direct)).toFixed(0)} that a direct client reads: ` +
      `${median(ratios).toFixed(2)} (quarters ${quantile(ratios, 0.25).toFixed(2)} to ${quantile(ratios, 0.75).toFixed(2)}; limit 0.5)`,
  );

  const added = (direct: readonly number[], gateway: readonly number[]): string =>
    `median ${(median(gateway) - median(direct)).toFixed(2)} ms to ${median(direct).toFixed(2)} ms (limit 1 ms); ` +
    `the fastest tenth ${(quantile(gateway, 0.1) - quantile(direct, 0.1)).toFixed(2)} ms`;
  const pairs = await inTurn(streams, 'small', 1000);
  streams.row(
    'added to the first byte, back to back',
    added(
      pairs.map(({ direct }) => direct.first),
      pairs.map(({ gateway }) => gateway.first),
    ),
  );
  const first = { direct: [] as number[], gateway: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    first.direct.push(...(await steady(streams.direct('small'), 20, 40)).map((answer) => answer.first));
    first.gateway.push(
      ...(await steady(await streams.through('small', 40), 20, 40)).map((answer) => answer.first),
    );
  }
  streams.row('added to the first byte, at 20 calls a second', added(first.direct, first.gateway));
}
