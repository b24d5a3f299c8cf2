/** What the server answers instead of sampling: vLLM's status, error type and words. */
export class Refusal extends Error {
  readonly status: number;
  readonly type: string;
  readonly param: string | null;

  constructor(status: number, message: string, type: string, param: string | null = null) {
    super(message);
    this.name = 'Refusal';
    this.status = status;
    this.type = type;
    this.param = param;
  }

  /** As SGLang's OpenAI routes write it. */
  flatBody(): unknown {
    const { message, type, param, status: code } = this;
    return { object: 'error', message, type, param, code };
  }

  body(): unknown {
    return { error: { message: this.message, type: this.type, param: this.param, code: this.status } };
  }
}

/** A request the engine understands and will not serve. */
export function badRequest(message: string, param: string | null = null): Refusal {
  return new Refusal(400, message, 'BadRequestError', param);
}

/** A body that does not fit the request's schema. */
export function malformed(message: string): Refusal {
  return new Refusal(400, message, 'Bad Request');
}

export function unknownModel(model: string): Refusal {
  return new Refusal(404, `The model \`${model}\` does not exist.`, 'NotFoundError', 'model');
}

/** Words: facts on the wire, 1.6. The prompt alone fills the context. */
export function promptTooLong(prompt: number, limit: number): Refusal {
  return badRequest(
    `This model's maximum context length is ${limit} tokens. However, your request has ${prompt} input tokens. ` +
      `Please reduce the length of the input messages. (parameter=input_tokens, value=${prompt})`,
    'input_tokens',
  );
}

/** Prompt and `max_tokens` together do not fit. */
export function maxTokensTooLarge(maxTokens: number, prompt: number, limit: number): Refusal {
  return badRequest(
    `'max_tokens' or 'max_completion_tokens' is too large: ${maxTokens}. This model's maximum context length is ` +
      `${limit} tokens and your request has ${prompt} input tokens (${maxTokens} > ${limit} - ${prompt}). ` +
      `(parameter=max_tokens, value=${maxTokens})`,
    'max_tokens',
  );
}

/** SGLang's words, of its tokenizer manager. */
export function sglangPromptTooLong(prompt: number, limit: number): Refusal {
  return badRequest(
    `The input (${prompt} tokens) is longer than the model's context length (${limit} tokens).`,
  );
}

export function sglangTotalTooLong(maxTokens: number, prompt: number, limit: number): Refusal {
  return badRequest(
    `Requested token count exceeds the model's maximum context length of ${limit} tokens. You requested a total of ` +
      `${maxTokens + prompt} tokens: ${prompt} tokens from the input messages and ${maxTokens} tokens for the completion. ` +
      'Please reduce the number of tokens in the input messages or the completion to fit within the limit.',
  );
}
