import type { Redis } from 'ioredis';
import { laneSchema, type Lane } from '../../contracts/index.ts';
import { episodeQueue, resultsQueue, type QueueNames } from '../names.ts';
import { LuaScript, replies } from './script.ts';

const script = new LuaScript<string[]>('survey-group', 2);

/** Whether a BullMQ job exists, and whether it has finished. */
export type JobPresence = 'missing' | 'present' | 'finished';

export interface SurveyedMember {
  readonly episode_id: string;
  readonly sample_index: number;
  readonly state: 'queued' | 'running' | 'published' | 'delivered';
  readonly attempts: number;
  /** Reason that ended this episode or its group or run; null: none. */
  readonly ended: 'cancelled' | 'stale' | null;
  readonly job: JobPresence;
  readonly result: JobPresence;
}

export interface SurveyedGroup {
  readonly group_id: string;
  readonly run_id: string;
  readonly batch_id: string;
  readonly task_key: string;
  readonly task_ref: string;
  readonly lane: Lane;
  readonly size: number;
  readonly generation: number;
  /** Members whose slot is not filled yet. */
  readonly members: readonly SurveyedMember[];
}

type Header = [string, string, string, string, string, string, string, string, ...string[]];

const presence: readonly JobPresence[] = ['missing', 'present', 'finished'];

/** Surveys open groups of one run in one pipeline; null for each that is unknown or closed by now. */
export async function surveyGroups(
  redis: Redis,
  names: QueueNames,
  run_id: string,
  groupIds: readonly string[],
): Promise<(SurveyedGroup | null)[]> {
  const pipeline = script.pipeline(redis);
  for (const id of groupIds) {
    script.queue(
      pipeline,
      [names.group(id), names.run(run_id)],
      [names.episode(''), names.queueBase(episodeQueue('*' as Lane)), names.queueBase(resultsQueue)],
    );
  }
  return (await replies<string[]>(pipeline)).map((reply, index) => {
    if (reply.length === 0) return null;
    const [run, batch, taskKey, taskRef, lane, size, generation, ended, ...members] = reply as Header;
    return {
      group_id: groupIds[index]!,
      run_id: run,
      batch_id: batch,
      task_key: taskKey,
      task_ref: taskRef,
      lane: laneSchema.parse(lane),
      size: Number(size),
      generation: Number(generation),
      members: members.map((line) => member(line, ended)),
    };
  });
}

function member(line: string, groupEnded: string): SurveyedMember {
  const [id, sample, state, attempts, ended, job, result] = line.split(' ') as [
    string,
    string,
    SurveyedMember['state'],
    string,
    string,
    string,
    string,
  ];
  const reason = ended === '-' ? groupEnded : ended;
  return {
    episode_id: id,
    sample_index: Number(sample),
    state,
    attempts: Number(attempts),
    ended: reason === '' ? null : (reason as 'cancelled' | 'stale'),
    job: presence[Number(job)]!,
    result: presence[Number(result)]!,
  };
}
