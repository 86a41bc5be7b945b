// Translate and align, or read and look: a sentence, what the model makes of it, and what each word looked at.

import { ask, grow } from "regard/api.js";
import { element, label, matrix, number, percent, section } from "regard/draw.js";

let grown = null;

export async function draw({ model, state, go, question, isCurrent }) {
  if (question.target === undefined && question.text && question.text !== grown) {
    grown = question.text;
    const [looked, line] = [1, 2].map(() => element("p", { class: "words", "aria-hidden": "true" }));
    const growing = ({ text, seen, weights }) => {
      if (!isCurrent()) return false;
      if (!line.isConnected) document.getElementById("main").replaceChildren(section("What it writes, and what the last token looked at", looked, line));
      looked.replaceChildren(...spaced(seen.map((piece, i) => {
        const word = element("span", { class: "word" }, label(piece));
        word.style.setProperty("--weight", weights[i]);
        return word;
      })));
      line.textContent = text;
      return true;
    };
    await grow(question.text, growing).catch(() => {}); // what is wrong, the question itself will tell
  }
  const answer = await ask("read", question);
  const own = question.target === undefined ? answer : await ask("read", { text: question.text }).catch(() => answer);
  const { spelled: first, parts } = Object.values(answer.streams)[0];
  const { rows: target, columns: source, weights } = answer.alignment ?? { rows: answer.said.spelled, columns: first, weights: null };
  const read = source.map((word, i) => element("span", { class: parts[i] ? "word second" : "word" }, word));
  const note = element("p", { class: "note", "aria-live": "polite" }, weights ? "Point at a word, or move to it with the Tab key." : "This model has no attention to look at.");
  const chosen = Number(state.word) in target && weights ? Number(state.word) : null;

  const picture = weights && matrix({
    name: "Alignment",
    rows: target,
    columns: source,
    at: (row, column) => weights[row][column],
    tell: (_, row) => look(row),
    choose: (row) => go({ word: row }),
  });

  function look(row) {
    if (!weights) return;
    read.forEach((word, i) => word.style.setProperty("--weight", row === null ? 0 : weights[row][i]));
    written.forEach((word, i) => word.classList.toggle("chosen", i === row));
    if (row === null) return;
    const order = [...source.keys()].sort((a, b) => weights[row][b] - weights[row][a]).slice(0, 3);
    const parts = order.map((i) => `“${source[i]}” ${percent(weights[row][i])}`);
    note.textContent = `“${target[row]}” looked at ${parts.join(", ")}.`;
  }

  const written = target.map((word, row) =>
    element(
      "button",
      {
        type: "button", class: !model.writes && parts[row] ? "word second" : "word", "data-focus": `word ${row}`,
        onpointerenter: () => look(row), onpointerleave: () => look(chosen), onfocus: () => look(row),
        onclick: () => go({ word: row === chosen ? null : row }),
      },
      word,
    ),
  );
  if (chosen !== null) look(chosen);
  const { text: whole, ends } = Object.values(answer.streams)[0];
  const goOn = (i, other) => {
    // from within a character, or with a token that is none or no text, there is no going on
    if (!model.continues || ends[i] === null || other.includes("\ufffd") || /^<\|.*\|>$/.test(other)) return null;
    return () => go({ text: [...whole].slice(0, ends[i]).join("") + other, target: null });
  };
  const hint = "Choose a token that was probable, too, and the model goes on from there.";

  return [
    section(
      model.writes && !model.continues ? "What it read and what it wrote" : "Each word, and what it looked at",
      element("p", { class: "words", lang: "x-source" }, ...spaced(read)),
      element("p", { class: "words", lang: "x-target" }, ...spaced(written)),
      note,
    ),
    ...(model.writes || !answer.said.spelled.length ? [] : [section("What it says", element("p", { class: "words" }, answer.said.spelled.join(" ")))]),
    ...(picture ? [section("Who aligns with whom", element("p", { class: "quiet" }, "The mean of all layers and heads that look from one to the other."), picture)] : []),
    ...(answer.said.pieces.length ? [section("How sure it was", ...(model.continues ? [element("p", { class: "quiet" }, hint)] : []), tokens(answer.spoken, goOn))] : []),
    ...(own.alternatives.length ? [section("What else it might say", others(own.alternatives, state, go))] : []),
  ];
}

const spaced = (words, space = " ") => words.flatMap((word, i) => (i ? [space, word] : [word]));

function tokens({ pieces, probabilities, others }, goOn) {
  const other = (i) => ([piece, p], j) => {
    const [text, action] = [`${label(piece)} ${percent(p)}`, goOn(i, piece)];
    return action ? element("button", { type: "button", class: "plain", "data-focus": `token ${i} ${j}`, onclick: action }, text) : text;
  };
  const rows = pieces.map((piece, i) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, label(piece)),
      element("td", {}, bar(probabilities[i]), percent(probabilities[i])),
      element("td", { class: "quiet" }, ...spaced(others[i].map(other(i)), "   ")),
    ),
  );
  const head = ["token", "probability", "most probable"].map((text) => element("th", { scope: "col" }, text));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

function bar(share) {
  const inner = element("span");
  inner.style.width = `${100 * share}%`;
  return element("span", { class: "bar", "aria-hidden": "true" }, inner);
}

function others(alternatives, state, go) {
  const items = alternatives.map(({ text, score }, i) =>
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
      element("span", { class: "quiet" }, ` log p a token ${number(score)}`),
    ),
  );
  return element("ol", {}, ...items);
}
