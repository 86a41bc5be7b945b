// Positions: the vector of each position, and the similarity of two positions by their distance.

import { ask } from "regard/api.js";
import { choice, curves, element, matrix, section, signed } from "regard/draw.js";

/** @type {Option[]} */
const KINDS = [["own", "the model's own"], ["sinusoidal", "sinusoidal"], ["fourier", "Fourier"], ["rotary", "rotary"]];

/** @param {Context} context */
export async function draw({ model, state, go }) {
  if (!model.positions.paths.length) return [section("Positions", element("p", {}, "This model has no positional encoding."))];
  const kind = state.kind ?? "own";
  const length = Number(state.length ?? 48);
  const request = { kind, length };
  const [{ shape, values }, other, own] = await Promise.all([ask("positions", request), ask("likeness", request), ask("likeness", { kind: "own", length })]);
  const size = values.reduce((maximum, value) => Math.max(maximum, Math.abs(value)), 1e-9);
  const named = { [`own (${model.positions.kind})`]: own.similarity, ...(kind === "own" ? {} : { [kind]: other.similarity }) };
  const note = element("p", { class: "note", "aria-live": "polite" });
  /** @param {number} n */
  const count = (n) => [...Array(n).keys()].map(String);
  return [
    section(
      `Positional encoding of this model: ${model.positions.kind}`,
      element(
        "div",
        { class: "controls" },
        choice("Kind", "kind", kind, KINDS, (chosen) => go({ kind: chosen })),
        choice("Length", "length", length, [16, 48, 128, 512].map((n) => [n, n]), (chosen) => go({ length: chosen })),
      ),
      note,
      matrix({
        name: "Positional encodings, one row per position",
        cell: 11,
        rows: count(shape[0]),
        columns: count(shape[1]),
        at: (row, column) => values[row * shape[1] + column],
        colour: (value) => signed(value, size),
        tell: (text) => (note.textContent = text),
      }),
    ),
    section("Similarity of positions by distance", curves(named, { name: "Mean cosine similarity by distance", below: "distance" })),
  ];
}
