import { ChatError, type ChatRequest } from '../chat.ts';

/** Whether a prompt has images: its token ids are then not the policy's whole input. */
export function hasImages(messages: ChatRequest['messages']): boolean {
  return messages.some(
    (message) =>
      message.role === 'user' &&
      typeof message.content !== 'string' &&
      message.content.some((part) => part.type === 'image_url'),
  );
}

/** An image's URL would be fetched by the engine, and give a closed sandbox a way out. */
export function refuseRemoteImages(messages: ChatRequest['messages']): void {
  for (const message of messages) {
    if (message.role !== 'user' || typeof message.content === 'string') continue;
    for (const part of message.content) {
      if (part.type === 'image_url' && !part.image_url.url.startsWith('data:')) {
        throw new ChatError('bad_request', 'images must be inline (base64): URLs are not fetched');
      }
    }
  }
}
