// Heads: one head as a linked matrix and line view, and thumbnails of all heads of all layers.

import { ask } from "regard/api.js";
import { choice, element, lines, matrix, percent, section, thumbnail } from "regard/draw.js";
import { labels, of, sides } from "regard/media.js";

/** @param {Context} context */
export async function draw({ model, state, go, question, isCurrent }) {
  if (!model.looks.length) return [section("Heads", element("p", {}, "This model has no attention."))];
  const answer = await ask("read", question);
  const look = model.looks.find(({ path }) => path === state.path) ?? model.looks[model.looks.length - 1];
  const head = Math.min(Number(state.head ?? 0), look.heads - 1);
  const weights = await ask("attention", { ...question, path: look.path });
  const { asks, answers } = sides(answer, look);
  const units = of(asks).units ?? of(answers).units;
  const byUnits = units !== null && state.words === "1";
  const seen = byUnits ? merged(weights, head, asks, answers) : tokens(weights, head, asks, answers);
  const row = state.row === undefined || Number(state.row) >= seen.rows.length ? null : Number(state.row);
  const note = element("p", { class: "note", "aria-live": "polite" }, row === null ? "" : best(seen, row));

  /** @type {(Option | OptionGroup)[]} */
  const options = "groupBy" in Map ? groups(model.looks) : model.looks.map(({ path }) => [path, path]);
  const picture = matrix({
    name: "Weights", ...seen, chosen: row === null ? null : [row, argmax(seen, row)],
    tell: (text) => (note.textContent = text), choose: (chosen) => go({ row: chosen === row ? null : chosen }),
  });
  const drawn = lines({ name: "Lines", ...seen, row, choose: (chosen) => go({ row: chosen }) });
  return [
    section(
      title(look, head),
      element(
        "div",
        { class: "controls" },
        choice("Attention", "path", look.path, options, (path) => go({ path })),
        choice("Head", "head", head, [...Array(look.heads).keys()].map((i) => [i, i]), (chosen) => go({ head: chosen })),
        ...(units ? [choice("Show", "words", byUnits ? "1" : "0", [["0", "tokens"], ["1", units]], (words) => go({ words, row: null }))] : []),
      ),
      note,
      element("div", { class: "pair" }, picture, element("div", { class: "scroll", "data-scroll": "lines" }, drawn)),
    ),
    section("All heads", await grid(model, go, question, look, head, isCurrent, seen.rows.length <= 64)),
  ];
}

/**
 * @param {Look[]} looks
 * @returns {OptionGroup[]}
 */
function groups(looks) {
  const kinds = Map.groupBy(looks, ({ asks, answers }) => (asks === answers ? `self-attention: ${asks}` : `cross-attention: ${asks} to ${answers}`));
  return [...kinds].map(([group, members]) => ({ group, options: members.map(({ path }) => [path, path]) }));
}

/** @type {(look: Look, head: number) => string} */
const title = (look, head) => `${look.path}, head ${head}: queries from ${look.asks}, keys from ${look.answers}`;

/**
 * @param {Numbers} weights
 * @param {number} head
 * @param {Stream} asks
 * @param {Stream} answers
 * @returns {Weights}
 */
function tokens({ shape, values }, head, asks, answers) {
  const [, queries, keys] = shape;
  return { rows: labels(asks), columns: labels(answers), at: (row, column) => values[(head * queries + row) * keys + column] };
}

/**
 * Attention between words: summed over the keys of a word, averaged over the queries of a word.
 *
 * @param {Numbers} weights
 * @param {number} head
 * @param {Stream} asks
 * @param {Stream} answers
 * @returns {Weights}
 */
function merged(weights, head, asks, answers) {
  const { at } = tokens(weights, head, asks, answers);
  const [rows, columns] = [asks, answers].map((stream) => of(stream).merged(stream));
  const sum = rows.map(({ places: own }) =>
    columns.map(({ places: theirs }) => own.reduce((total, r) => total + theirs.reduce((part, c) => part + at(r, c), 0), 0) / own.length),
  );
  const [names, others] = [rows, columns].map((units) => units.map(({ label }) => label));
  return { rows: names, columns: others, at: (row, column) => sum[row][column] };
}

/** @type {(seen: Weights, row: number) => number} */
const argmax = ({ columns, at }, row) => columns.reduce((top, _, i) => (at(row, i) > at(row, top) ? i : top), 0);

/**
 * @param {Weights} seen
 * @param {number} row
 */
function best(seen, row) {
  const order = [...seen.columns.keys()].sort((a, b) => seen.at(row, b) - seen.at(row, a)).slice(0, 3);
  return `“${seen.rows[row]}” attends to ${order.map((i) => `“${seen.columns[i]}” ${percent(seen.at(row, i))}`).join(", ")}.`;
}

/**
 * Thumbnails of all heads: all at once for short texts; for long ones row by row, while the page can be used.
 *
 * @param {Model} model
 * @param {Go} go
 * @param {Question} question
 * @param {Look} chosen
 * @param {number} chosenHead
 * @param {() => boolean} isCurrent
 * @param {boolean} isShort
 */
async function grid(model, go, question, chosen, chosenHead, isCurrent, isShort) {
  const all = element("div");
  const fill = async () => {
    for (const look of model.looks) {
      const { shape, values } = await ask("attention", { ...question, path: look.path });
      if (!isCurrent()) return;
      const [heads, queries, keys] = shape;
      const small = [...Array(heads).keys()].map((head) =>
        thumbnail({
          rows: queries, columns: keys, at: (row, column) => values[(head * queries + row) * keys + column],
          title: `${look.path}, head ${head}`, chosen: look.path === chosen.path && head === chosenHead,
          choose: () => go({ path: look.path, head }), focus: `small ${look.path} ${head}`,
        }),
      );
      all.append(element("div", { class: "row" }, element("span", { class: "quiet path" }, look.path), ...small));
    }
  };
  const filled = fill();
  if (isShort) await filled;
  else filled.catch(() => {}); // the first request has reported the error
  return all;
}
