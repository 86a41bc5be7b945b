// Media: how streams are drawn, one module per medium, each with the same exports as text.js.

import { choice } from "regard/draw.js";
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
 * The argument for the chosen token of the output; nothing for the whole output.
 *
 * @param {State} state
 */
export const chosenToken = (state) => (state.output === undefined ? {} : { token: Number(state.output) });

/**
 * The control that chooses the whole output or one of its tokens.
 *
 * @param {Prediction} spoken
 * @param {State} state
 * @param {Go} go
 */
export function outputChoice(spoken, state, go) {
  /** @type {Option[]} */
  const tokens = labels(spoken).map((name, i) => [i, `${i}: ${name}`]);
  return choice("Tokens", "output", state.output ?? "", [["", "all predicted tokens"], ...tokens], (value) => go({ output: value || null }));
}

/**
 * The streams of an attention: queries come from the target in cross-attention, and from the stream itself in self-attention.
 *
 * @param {ReadAnswer} answer
 * @param {Pair} look
 */
export function sides(answer, { asks, answers }) {
  return { asks: asks === answers ? answer.streams[asks] : answer.target, answers: answer.streams[answers] };
}
