export { callFormats, type CallFormat } from '../../../contracts/index.ts';
