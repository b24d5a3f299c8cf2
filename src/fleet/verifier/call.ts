import type { ChatMessage, FleetTask } from '../../contracts/index.ts';
import { bundleVerifier } from './bundle.ts';
import { pickle, Tuple, type Picklable } from './pickle.ts';
import { readSignature, type VerifierSignature } from './signature.ts';

export interface VerifierCallOptions {
  readonly task: Pick<FleetTask, 'task_key' | 'region' | 'verifier_runtime_version'>;
  /** The task's `verifier_code`, or what the server has under its `verifier_id`. */
  readonly code: string;
  readonly instance_id: string;
  /** null: none was submitted. */
  readonly final_answer: string | null;
  readonly conversation: readonly ChatMessage[];
  /** Brought to a whole number from 1 to 300, which is what the wire takes. */
  readonly timeout_seconds: number;
}

/** Body of `POST /v1/verifiers/execute` without its `bundle`, which goes along only when the server lacks it. */
export interface VerifierCallBody {
  readonly key: string;
  readonly sha256: string;
  /** Pickle of `{"args": (None, {"env": instance_id}), "kwargs": {...}}`, base64. */
  readonly args: string;
  readonly args_array: readonly [{ readonly env: string }];
  readonly function_name: string;
  readonly timeout: number;
  readonly region: string;
  readonly verifier_runtime_version?: string;
}

export interface VerifierCall {
  /** ZIP; base64 of it is the body's `bundle`. */
  readonly bundle: Uint8Array;
  readonly sha256: string;
  readonly body: VerifierCallBody;
}

/** What the vendor's SDK sends, whatever the instance's region is. */
const defaultRegion = 'us-west-1';

/**
 * Half of a surrogate pair becomes U+FFFD: a verifier that prints one fails, and what a policy writes must not decide
 * whether it is graded.
 */
function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\uFFFD');
}

function keywordsFor(signature: VerifierSignature, options: VerifierCallOptions): Record<string, Picklable> {
  const { final_answer, conversation } = options;
  const keywords: Record<string, Picklable> = {};
  const takesAnswer = signature.any_keyword || signature.parameters.includes('final_answer');
  if (final_answer !== null && takesAnswer) keywords['final_answer'] = wellFormed(final_answer);
  if (signature.parameters.includes('conversation')) {
    keywords['conversation'] = JSON.stringify(conversation, (_name, value: unknown) =>
      typeof value === 'string' ? wellFormed(value) : value,
    );
  }
  return keywords;
}

/**
 * Everything a verifier's execution sends. `final_answer` is passed to a function that takes it, when there is one;
 * `conversation`, the messages as JSON text, to a function that declares it.
 *
 * @throws VerifierSourceError when the code has no function to call.
 */
export function verifierCall(options: VerifierCallOptions): VerifierCall {
  const { task, code, instance_id, timeout_seconds } = options;
  const signature = readSignature(code);
  const { zip, sha256 } = bundleVerifier(code);
  // The leading None is the place of the environment, which the server makes from the last argument.
  const args = pickle({
    args: new Tuple(null, { env: instance_id }),
    kwargs: keywordsFor(signature, options),
  });
  return {
    bundle: zip,
    sha256,
    body: {
      key: task.task_key,
      sha256,
      args: Buffer.from(args).toString('base64'),
      args_array: [{ env: instance_id }],
      function_name: signature.name,
      timeout: Math.min(300, Math.max(1, Math.ceil(timeout_seconds))),
      region: task.region ?? defaultRegion,
      ...(task.verifier_runtime_version === null
        ? {}
        : { verifier_runtime_version: task.verifier_runtime_version }),
    },
  };
}
