/** An image's name in its parts. */
export interface ImageReference {
  /** As the daemon takes it: everything before the tag. */
  readonly repository: string;
  /** A tag, or a digest (`sha256:…`). */
  readonly tag: string;
  /** Host of its registry as Docker's configuration names it, the port included. */
  readonly registry: string;
}

/** The key of Docker's public registry in its configuration. */
const publicRegistry = 'https://index.docker.io/v1/';

/** Splits a name such as `python`, `ghcr.io/owner/name:1` or `localhost:5000/x@sha256:…`. Does not check it: the daemon does. */
export function parseReference(text: string): ImageReference {
  const digest = text.indexOf('@');
  const colon = text.lastIndexOf(':');
  const cut = digest >= 0 ? digest : colon > text.lastIndexOf('/') ? colon : -1;
  const repository = cut < 0 ? text : text.slice(0, cut);
  const first = repository.split('/')[0]!;
  // Docker's rule: the first part is a host when it has a dot or a port, or is localhost.
  const named = repository.includes('/') && (/[.:]/.test(first) || first === 'localhost');
  return {
    repository,
    tag: cut < 0 ? 'latest' : text.slice(cut + 1),
    registry: named && first !== 'docker.io' && first !== 'index.docker.io' ? first : publicRegistry,
  };
}

const part = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*';
const label = '[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?';
const grammar = new RegExp(
  `^(?:(?:${label}(?:\\.${label})*|\\[[0-9a-fA-F:]+\\])(?::[0-9]+)?/)?${part}(?:/${part})*` +
    '(?::[\\w][\\w.-]{0,127})?(?:@[a-zA-Z0-9+._-]+:[0-9a-fA-F]{32,})?$',
);

/** Whether it can be the name of an image, by Docker's grammar (distribution/reference). Only then may it stand in a path. */
export function isReference(text: string): boolean {
  return text.length <= 512 && grammar.test(text);
}
