// Translate and align, or read and inspect: a sentence, the model's output for it, and what each word attends to.

import { ask, generate } from "regard/api.js";
import { element, matrix, number, percent, section, spaced } from "regard/draw.js";
import { labels, of, sides } from "regard/media.js";

/** @typedef {(i: number, piece: string) => (() => void) | null} ContinueFrom */

/** @type {string | null} */
let generated = null;

/** @param {Context} context */
export async function draw({ model, state, go, question, isCurrent }) {
  const given = JSON.stringify(question.inputs);
  if (question.target === undefined && Object.values(question.inputs).every(Boolean) && given !== generated) {
    generated = given;
    const [looked, line] = [element("div"), element("p", { class: "words", "aria-hidden": "true" })];
    /** @param {Growing} growing */
    const growing = ({ text, seen, weights }) => {
      if (!isCurrent()) return false;
      if (!line.isConnected) document.getElementById("main")?.replaceChildren(section("The output so far, and what its last token attends to", looked, line));
      const tokens = labels(seen).map((name, i) => {
        const token = element("span", { class: "word" }, name);
        token.style.setProperty("--weight", String(weights[i]));
        return token;
      });
      looked.replaceChildren(of(seen).laidOut(seen, tokens, { "aria-hidden": "true" }));
      line.textContent = text;
      return true;
    };
    await generate(question.inputs, growing).catch(() => {}); // the next request reports the error
  }
  const answer = await ask("read", question);
  const own = question.target === undefined ? answer : await ask("read", { inputs: question.inputs }).catch(() => answer);
  const [first] = Object.values(answer.streams);
  const { asks, answers } = answer.alignment ? sides(answer, answer.alignment) : { asks: answer.target, answers: first };
  const { rows: target, columns: source, weights } = answer.alignment ?? { rows: names(asks), columns: names(answers), weights: null };
  const read = source.map((name, i) => element("span", { class: of(answers).unitClass(answers, i) }, name));
  const note = element("p", { class: "note", "aria-live": "polite" }, weights ? "Point at a word, or move to it with the Tab key." : "This model has no attention.");
  const chosen = Number(state.word) in target && weights ? Number(state.word) : null;

  const picture = weights && matrix({
    name: "Alignment",
    rows: target,
    columns: source,
    at: (row, column) => weights[row][column],
    tell: (_, row) => look(row),
    choose: (row) => go({ word: row }),
  });

  /** @param {number | null} row */
  function look(row) {
    if (!weights) return;
    read.forEach((word, i) => word.style.setProperty("--weight", String(row === null ? 0 : weights[row][i])));
    written.forEach((word, i) => word.classList.toggle("chosen", i === row));
    if (row === null) return;
    const order = [...source.keys()].sort((a, b) => weights[row][b] - weights[row][a]).slice(0, 3);
    const parts = order.map((i) => `“${source[i]}” ${percent(weights[row][i])}`);
    note.textContent = `“${target[row]}” attends to ${parts.join(", ")}.`;
  }

  const written = target.map((word, row) =>
    element(
      "button",
      {
        type: "button", class: of(asks).unitClass(asks, row), "data-focus": `word ${row}`,
        onpointerenter: () => look(row), onpointerleave: () => look(chosen), onfocus: () => look(row),
        onclick: () => go({ word: row === chosen ? null : row }),
      },
      word,
    ),
  );
  if (chosen !== null) look(chosen);
  /** @type {ContinueFrom} */
  const continueFrom = (i, piece) => {
    const next = model.continues ? of(first).continued(first, i, piece) : null;
    return next === null ? null : () => go({ [Object.keys(model.accepts)[0]]: next, target: null });
  };
  const hint = "Click an alternative to continue from it.";

  return [
    section(
      model.writes && !model.continues ? "Input and output" : "What each word attends to",
      of(answers).laidOut(answers, read, { lang: "x-source" }),
      of(asks).laidOut(asks, written, { lang: "x-target" }),
      note,
    ),
    ...(model.writes || !names(answer.target).length ? [] : [section("Prediction", element("p", { class: "words" }, of(answer.target).line(answer.target)))]),
    ...(picture ? [section("Attention between words", element("p", { class: "quiet" }, "Mean over all layers and heads between the two sequences. Rows: queries, columns: keys."), picture)] : []),
    ...(answer.target.pieces.length ? [section("Token probabilities", ...(model.continues ? [element("p", { class: "quiet" }, hint)] : []), tokens(answer.spoken, continueFrom))] : []),
    ...(own.alternatives.length ? [section("Alternative outputs", others(own.alternatives, state, go))] : []),
  ];
}

/**
 * The labels of a stream's words.
 *
 * @param {Stream} stream
 */
const names = (stream) => of(stream).merged(stream).map(({ label }) => label);

/**
 * @param {Prediction} spoken
 * @param {ContinueFrom} continueFrom
 */
function tokens(spoken, continueFrom) {
  const { probabilities, others } = spoken;
  const { label } = of(spoken);
  /** @type {(i: number) => (other: [piece: string, probability: number], j: number) => Child} */
  const other = (i) => ([piece, p], j) => {
    const [text, action] = [`${label(piece)} ${percent(p)}`, continueFrom(i, piece)];
    return action ? element("button", { type: "button", class: "plain", "data-focus": `token ${i} ${j}`, onclick: action }, text) : text;
  };
  const rows = labels(spoken).map((name, i) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, name),
      element("td", {}, bar(probabilities[i]), percent(probabilities[i])),
      element("td", { class: "quiet" }, ...spaced(others[i].map(other(i)), "   ")),
    ),
  );
  const head = ["token", "probability", "most probable"].map((text) => element("th", { scope: "col" }, text));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

/** @param {number} fraction */
function bar(fraction) {
  const inner = element("span");
  inner.style.width = `${100 * fraction}%`;
  return element("span", { class: "bar", "aria-hidden": "true" }, inner);
}

/**
 * @param {Alternative[]} alternatives
 * @param {State} state
 * @param {Go} go
 */
function others(alternatives, state, go) {
  const items = alternatives.map(({ text, mean_log_probability }, i) =>
    element(
      "li",
      {},
      element(
        "button",
        {
          type: "button", class: "plain", "data-focus": `other ${i}`,
          "aria-pressed": String(state.target === undefined ? i === 0 : state.target === text),
          onclick: () => go({ target: i === 0 ? null : text }),
        },
        text,
      ),
      element("span", { class: "quiet" }, ` log p per token ${number(mean_log_probability)}`),
    ),
  );
  return element("ol", {}, ...items);
}
