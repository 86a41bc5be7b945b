// Text: tokens are merged into words, shown in a row.

import { element, spaced } from "regard/draw.js";

/** The label of a single input. */
export const title = "Text";

/** What tokens are merged into. */
export const units = "words";

/**
 * The label of a token: without surrounding spaces; a symbol stands for a line break or an empty piece.
 *
 * @param {string} piece
 */
export const label = (piece) => piece.trim() || (piece.includes("\n") ? "⏎" : "·");

/**
 * The words, each with the indices of its tokens.
 *
 * @param {Stream} stream
 */
export function merged({ layout }) {
  return layout.spelled.map((word, i) => ({ label: word, places: layout.words.flatMap((other, place) => (other === i ? [place] : [])) }));
}

/**
 * The class of the element that shows a word; the second of two texts has its own colour.
 *
 * @param {Stream} stream
 * @param {number} i
 */
export const unitClass = ({ layout }, i) => (layout.parts[i] ? "word second" : "word");

/**
 * Elements for words or tokens, side by side.
 *
 * @param {Stream} _stream
 * @param {HTMLElement[]} elements
 * @param {Attributes} [attributes]
 */
export const laidOut = (_stream, elements, attributes = {}) => element("p", { class: "words", ...attributes }, ...spaced(elements, " "));

/**
 * All words in a line.
 *
 * @param {Stream} stream
 */
export const line = ({ layout }) => layout.spelled.join(" ");

/**
 * The text up to a token, followed by another token; null if that is impossible: inside a character, or with a special token.
 *
 * @param {Stream} stream
 * @param {number} i
 * @param {string} piece
 */
export function continued({ layout }, i, piece) {
  const end = layout.ends[i];
  if (end === null || piece.includes("\ufffd") || /^<\|.*\|>$/.test(piece)) return null;
  return [...layout.text].slice(0, end).join("") + piece;
}

/**
 * The field for an input.
 *
 * @param {string} name
 */
export function field(name) {
  const box = element("textarea", { name, rows: 1, autocomplete: "off", spellcheck: "false", maxlength: 4000 });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault(); // Shift+Enter inserts a line break
    box.form?.requestSubmit();
  });
  return box;
}

/**
 * The field for a changed input.
 *
 * @param {string} name
 * @param {string} value
 */
export const otherField = (name, value) => element("input", { type: "text", name, value, "data-focus": name, autocomplete: "off" });
