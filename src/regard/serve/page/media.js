// Media: how streams are drawn, one module per medium, each with the same exports as text.js.

import * as text from "regard/media/text.js";

/** @type {Record<string, Medium | undefined>} */
const MEDIA = { text };

/**
 * For a medium without a module: its tokens, unchanged.
 *
 * @type {Medium}
 */
const PLAIN = {
  ...text,
  title: null,
  units: null,
  label: (piece) => piece,
  merged: ({ pieces }) => pieces.map((piece, i) => ({ label: piece, places: [i] })),
  unitClass: () => "word",
  line: ({ pieces }) => pieces.join(" "),
  continued: () => null,
};

/** @param {string} name */
export const medium = (name) => MEDIA[name] ?? PLAIN;

/**
 * The medium of a stream.
 *
 * @param {Stream} stream
 */
export const of = (stream) => medium(stream.medium);

/**
 * The labels of a stream's tokens.
 *
 * @param {Stream} stream
 */
export const labels = (stream) => stream.pieces.map(of(stream).label);

/**
 * The streams of an attention: queries come from the target in cross-attention, and from the stream itself in self-attention.
 *
 * @param {ReadAnswer} answer
 * @param {Pair} look
 */
export function sides(answer, { asks, answers }) {
  return { asks: asks === answers ? answer.streams[asks] : answer.target, answers: answer.streams[answers] };
}
