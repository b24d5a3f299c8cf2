import { describe, expect, it } from 'vitest';
import { attempt, taskOf, tasks, type Call } from './workshop.ts';

interface Way {
  readonly calls?: readonly Call[];
  readonly answer?: string;
}

interface Example {
  readonly key: string;
  readonly right: readonly Way[];
  /** Each of them earns nothing. */
  readonly wrong: Readonly<Record<string, Way>>;
}

const message = (customer_id: number, job_id: number, body: string): Call => [
  'send_message',
  { customer_id, job_id, body },
];
const status = (job_id: number, to: string): Call => ['set_job_status', { job_id, status: to }];
const move = (job_id: number, mechanic_id: number, day = 18): Call => [
  'move_job',
  { job_id, mechanic_id, work_date: `2026-03-${day}` },
];
const order = (part_id: number, quantity = 12): Call => ['order_part', { part_id, quantity }];
const book = (more: object = {}): Call => [
  'book_job',
  {
    bike_id: 503,
    work_date: '2026-03-18',
    mechanic_id: 2,
    service_codes: ['e-service', 'brake-bleed'],
    price_limit_eur: 150,
    ...more,
  },
];
const bell = (job_id: number, part_id: number, quantity = 1): Call => [
  'add_part',
  { job_id, part_id, quantity },
];

const collected = message(113, 1012, 'Your Fjell is ready until 18:00. It comes to 148.90 euros.');
const exchange: readonly Call[] = [
  ['remove_line', { line_id: 12 }],
  ['add_part', { job_id: 2007, part_id: 221 }],
  status(2007, 'ready'),
];
const newTotal = message(102, 2007, 'Your Brio is ready: 125,40 euros with the right cassette.');
const newDay = message(105, 1017, 'Tomasz is ill: your Halcyon is done on Friday, 20 March.');
const goodbye = message(101, 2010, 'We have cancelled jobs 2010 and 2013. Good luck in Aarhus!');

const examples: readonly Example[] = [
  {
    key: 'bw_tyre_price',
    right: [
      { answer: 'We have 7 in stock at 34.90 euros each.' },
      { answer: '7 pieces, €34,90', calls: [['find_parts', { text: 'tour tyre' }]] },
    ],
    wrong: {
      'no answer': {},
      'the other tyre': { answer: '12 in stock, 36.90 euros' },
      'both tyres': { answer: '7 at 34.90 or 12 at 36.90' },
      'half of it': { answer: 'They cost 34.90 euros.' },
      'an order beside it': { answer: '7, 34.90', calls: [order(206)] },
    },
  },
  {
    key: 'bw_ready_for_collection',
    right: [{ calls: [status(1012, 'ready'), collected] }],
    wrong: {
      nothing: {},
      'no message': { calls: [status(1012, 'ready')] },
      'another job': { calls: [status(1011, 'ready'), collected] },
      'the other Novák': {
        calls: [status(1012, 'ready'), message(115, 1021, 'Ready until 18:00: 148.90 euros.')],
      },
      'no price': { calls: [status(1012, 'ready'), message(113, 1012, 'Ready, until 18:00.')] },
      'two messages': { calls: [status(1012, 'ready'), collected, collected] },
      'too far': { calls: [status(1012, 'ready'), status(1012, 'collected'), collected] },
    },
  },
  {
    key: 'bw_brass_bell',
    right: [{ calls: [bell(1011, 230)] }],
    wrong: {
      nothing: {},
      'the steel bell': { calls: [bell(1011, 231)] },
      'the road bike': { calls: [bell(1033, 230)] },
      'two bells': { calls: [bell(1011, 230, 2)] },
      'both bells': { calls: [bell(1011, 230), bell(1011, 231)] },
      'the job closed too': { calls: [bell(1011, 230), status(1011, 'ready')] },
    },
  },
  {
    key: 'bw_book_e_bike',
    right: [
      { calls: [book()] },
      { calls: [book({ service_codes: ['brake-bleed', 'e-service'], note: 'Front brake' })] },
    ],
    wrong: {
      nothing: {},
      'no limit': { calls: [book({ price_limit_eur: undefined })] },
      'a later day': { calls: [book({ work_date: '2026-03-19', mechanic_id: 3 })] },
      'the other Ferrari': { calls: [status(1025, 'cancelled'), book({ bike_id: 528 })] },
      'one service': { calls: [book({ service_codes: ['e-service'] })] },
      'a message too': { calls: [book(), message(102, 1040, 'Booked.')] },
    },
  },
  {
    key: 'bw_reorder_brakes',
    right: [{ calls: [order(208), order(210), order(212)] }],
    wrong: {
      nothing: {},
      'one left out': { calls: [order(208), order(212)] },
      'too many of one': { calls: [order(208), order(210), order(212, 20)] },
      'one at its level': { calls: [order(208), order(210), order(211), order(212)] },
    },
  },
  {
    key: 'bw_over_limit',
    right: [{ answer: '1013, 1021, 1029' }, { answer: '1029,1013,1021' }],
    wrong: {
      'no answer': {},
      'next week too': { answer: '1013, 1021, 1029, 1038' },
      'one left out': { answer: '1013, 1021' },
      'a change beside it': { answer: '1013, 1021, 1029', calls: [status(1021, 'cancelled')] },
    },
  },
  {
    key: 'bw_sick_mechanic',
    right: [{ calls: [move(1015, 3), move(1016, 6), move(1017, 2, 20), newDay] }],
    wrong: {
      nothing: {},
      'no message': { calls: [move(1015, 3), move(1016, 6), move(1017, 2, 20)] },
      'the e-bike person wasted': {
        calls: [move(1016, 3), move(1015, 2, 20), move(1017, 3, 19), newDay],
      },
      'somebody else later': { calls: [move(1015, 3), move(1016, 6), move(1017, 3, 19), newDay] },
      'a message too many': {
        calls: [
          ...[move(1015, 3), move(1016, 6), move(1017, 2, 20), newDay],
          message(126, 1016, 'Léa does it.'),
        ],
      },
      'another job moved': {
        calls: [move(1015, 3), move(1016, 6), move(1017, 2, 20), newDay, move(1034, 4, 20)],
      },
    },
  },
  {
    key: 'bw_wrong_cassette',
    right: [{ calls: [...exchange, newTotal] }],
    wrong: {
      nothing: {},
      'a spoke too': {
        calls: [
          ...exchange.slice(0, 2),
          ['add_part', { job_id: 2007, part_id: 236 }],
          status(2007, 'ready'),
          message(102, 2007, 'Ready: 126.60 euros.'),
        ],
      },
      'ten speeds again': {
        calls: [exchange[0]!, ['add_part', { job_id: 2007, part_id: 218 }], exchange[2]!, newTotal],
      },
      'not ready': { calls: [...exchange.slice(0, 2), newTotal] },
      'the old total': { calls: [...exchange, message(102, 2007, 'Ready: 122.90 euros.')] },
      'another job ready too': { calls: [...exchange, newTotal, status(2006, 'ready')] },
    },
  },
  {
    key: 'bw_moving_away',
    right: [{ calls: [status(2010, 'cancelled'), status(2013, 'cancelled'), goodbye] }],
    wrong: {
      nothing: {},
      'one left': { calls: [status(2010, 'cancelled'), goodbye] },
      'the running one too': {
        calls: [
          ...[status(2010, 'cancelled'), status(2013, 'cancelled'), goodbye],
          ...[status(2011, 'waiting'), status(2011, 'cancelled')],
        ],
      },
      'the other Sørensen': {
        calls: [status(2010, 'cancelled'), status(2013, 'cancelled'), status(2008, 'cancelled'), goodbye],
      },
      'no numbers': {
        calls: [status(2010, 'cancelled'), status(2013, 'cancelled'), message(101, 2010, 'Cancelled.')],
      },
    },
  },
];

it('every task is tried here', () => {
  expect(examples.map(({ key }) => key).sort()).toEqual(tasks.map(({ task_key }) => task_key).sort());
});

async function score(key: string, { calls = [], answer }: Way): Promise<unknown> {
  await using tried = await attempt(taskOf(key));
  tried.calls(calls);
  const { success, result, error, stdout } = await tried.verify(answer);
  expect(error, stdout).toBeNull();
  expect(success).toBe(true);
  return { result, failed: stdout.includes('>>> ERROR_ACCUMULATOR >>>') };
}

describe.each(examples)('$key', ({ key, right, wrong }) => {
  it('is solved by the right calls', async () => {
    for (const way of right) expect(await score(key, way)).toEqual({ result: 1, failed: false });
  });

  it(`is not solved by ${Object.keys(wrong).join(', ')}`, async () => {
    const scores = await Promise.all(
      Object.entries(wrong).map(async ([name, way]) => [name, await score(key, way)]),
    );
    const none = Object.keys(wrong).map((name) => [name, { result: 0, failed: true }]);
    expect(Object.fromEntries(scores)).toEqual(Object.fromEntries(none));
  });
});
