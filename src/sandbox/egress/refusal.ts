import { RequestError } from 'proxy-chain';

/**
 * Why a request is not carried out, as the status and the one line that its sender reads. `bad`: no target can be read
 * out of it, or more than one; `forbidden`: the sandbox may not go there; `failed`: it may, and nobody answers.
 */
export class EgressError extends RequestError {
  readonly kind: 'bad' | 'forbidden' | 'failed';

  constructor(
    kind: EgressError['kind'],
    message: string,
    status = { bad: 400, forbidden: 403, failed: 502 }[kind],
  ) {
    super(message, status);
    this.kind = kind;
    // proxy-chain knows its own errors by this name.
    this.name = RequestError.name;
  }
}
