// Text: tokens are merged into words, which stand in a row.

import { element, spaced } from "regard/draw.js";

/** What an input is called where it is the only one. */
export const title = "Text";

/** What tokens are merged into. */
export const units = "words";

/**
 * What a token looks like in a list: a space stands for nothing, and nothing for an empty piece.
 *
 * @param {string} piece
 */
export const label = (piece) => piece.trim() || (piece.includes("\n") ? "⏎" : "·");

/**
 * The words, each with the places of its tokens.
 *
 * @param {Stream} stream
 */
export function merged({ layout }) {
  return layout.spelled.map((word, i) => ({ label: word, places: layout.words.flatMap((other, place) => (other === i ? [place] : [])) }));
}

/**
 * The class of the element that shows a word; of two texts, the second has a colour of its own.
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
 * The text up to a token, and another token after it; null where there is no going on: within a character, or with a token that is none or no text.
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
 * Where an input is typed.
 *
 * @param {string} name
 */
export function field(name) {
  const box = element("textarea", { name, rows: 1, autocomplete: "off", spellcheck: "false", maxlength: 4000 });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault(); // with Shift, it breaks the line
    box.form?.requestSubmit();
  });
  return box;
}

/**
 * Where another input is typed, to be read instead.
 *
 * @param {string} name
 * @param {string} value
 */
export const otherField = (name, value) => element("input", { type: "text", name, value, "data-focus": name, autocomplete: "off" });
