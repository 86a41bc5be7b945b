// Media: how streams are drawn, one module a medium; each exports what text.js does.

import * as text from "regard/media/text.js";

/** @type {Record<string, Medium | undefined>} */
const MEDIA = { text };

/**
 * For a medium that no module is for: its tokens, as they are.
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
 * What the tokens of a stream look like in a list.
 *
 * @param {Stream} stream
 */
export const labels = (stream) => stream.pieces.map(of(stream).label);

/**
 * The streams of a look: at another stream, what is being written asks; at its own, what stands there.
 *
 * @param {ReadAnswer} answer
 * @param {Pair} look
 */
export function sides(answer, { asks, answers }) {
  return { asks: asks === answers ? answer.streams[asks] : answer.target, answers: answer.streams[answers] };
}
