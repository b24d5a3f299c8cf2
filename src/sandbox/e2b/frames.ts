/** A message between this worker and the hand inside (inside/hand.py). */
export interface Message {
  readonly header: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
}

const nothing = Buffer.alloc(0);

/** [u32 length][u16 header length][header, JSON][body], as inside/frames.py has it. */
export function encodeMessage(header: Readonly<Record<string, unknown>>, body: Uint8Array = nothing): Buffer {
  const text = Buffer.from(JSON.stringify(header), 'utf8');
  const head = Buffer.alloc(6);
  head.writeUInt32BE(2 + text.length + body.byteLength, 0);
  head.writeUInt16BE(text.length, 4);
  return Buffer.concat([head, text, body]);
}

/** Takes the lines of base64 that the hand's end of the line writes, cut anywhere, and gives whole messages. */
export class MessageReader {
  #partial = '';
  #held: Buffer = nothing;

  /** Throws on what no hand writes. */
  push(text: string): Message[] {
    const lines = (this.#partial + text).split('\n');
    this.#partial = lines.pop() ?? '';
    if (lines.length === 0) return [];
    this.#held = Buffer.concat([this.#held, ...lines.map((line) => Buffer.from(line, 'base64'))]);
    const messages: Message[] = [];
    let at = 0;
    while (this.#held.length - at >= 6) {
      const end = at + 4 + this.#held.readUInt32BE(at);
      if (this.#held.length < end) break;
      const body = at + 6 + this.#held.readUInt16BE(at + 4);
      messages.push({
        header: JSON.parse(this.#held.toString('utf8', at + 6, body)) as Message['header'],
        body: Buffer.from(this.#held.subarray(body, end)),
      });
      at = end;
    }
    this.#held = Buffer.from(this.#held.subarray(at));
    return messages;
  }
}
