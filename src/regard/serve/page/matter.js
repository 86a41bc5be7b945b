// Which heads matter: a weight is not yet a cause. Head ablation, attention rollout, and the predictions after each layer.

import { ask } from "regard/api.js";
import { choice, element, largest, matrix, number, percent, section, shade, signed, thumbnail } from "regard/draw.js";
import { chosenToken, labels, of, outputChoice, sides } from "regard/media.js";

/** @param {Context} context */
export async function draw({ model, state, go, question }) {
  if (!model.looks.length) return [section("Heads", element("p", {}, "This model has no attention."))];
  const [answer, found] = await Promise.all([ask("read", question), ask("heads", { ...question, ...chosenToken(state) })]);
  const about = found.outputs.length
    ? "Below each head: the change in the log-probability of the output when the head is switched off. Click a head to inspect it."
    : "The model predicts nothing for this input (a masked language model predicts masked tokens only). Choose a token.";
  return [
    section(
      "Effect of each head on this output",
      element("div", { class: "controls" }, outputChoice(answer.spoken, state, go)),
      element("p", { class: "quiet" }, about),
      ...(found.outputs.length ? [await effects(model, question, found.effects, go)] : []),
    ),
    await flow(found.rollouts, question, answer, state, go),
    ...(found.early.length && found.outputs.length ? [early(found, answer)] : []),
  ];
}

/**
 * @param {Model} model
 * @param {Question} question
 * @param {HeadsAnswer["effects"]} values
 * @param {Go} go
 */
async function effects(model, question, values, go) {
  const size = largest(Object.values(values));
  const rows = [];
  for (const { path } of model.looks) {
    const weights = await ask("attention", { ...question, path });
    const [, queries, keys] = weights.shape;
    const cells = values[path].map((value, head) => {
      const picture = thumbnail({
        rows: queries, columns: keys, at: (row, column) => weights.values[(head * queries + row) * keys + column],
        title: `${path}, head ${head}: ${number(value)}`, chosen: false, choose: () => go({ view: "heads", path, head }), focus: `effect ${path} ${head}`,
      });
      const cell = element("span", { class: "worth" }, picture, element("span", { "aria-hidden": "true" }, number(value)));
      cell.style.setProperty("--cell", signed(value, size));
      return cell;
    });
    rows.push(element("div", { class: "row" }, element("span", { class: "quiet path" }, path), ...cells));
  }
  return element("div", {}, ...rows);
}

/**
 * @param {HeadsAnswer["rollouts"]} rollouts
 * @param {Question} question
 * @param {ReadAnswer} answer
 * @param {State} state
 * @param {Go} go
 */
async function flow(rollouts, question, answer, state, go) {
  const chosen = Math.min(Number(state.flow ?? rollouts.length - 1), rollouts.length - 1);
  const [asks, answers] = rollouts[chosen];
  const { shape, values } = await ask("rollout", { ...question, asks, answers });
  const streams = sides(answer, { asks, answers });
  const note = element("p", { class: "note", "aria-live": "polite" });
  return section(
    "Attention rollout",
    element("p", { class: "quiet" }, "The attention weights of all layers, multiplied, with residual connections."),
    choice("Streams", "flow", chosen, rollouts.map(([from, to], i) => [i, `${from} to ${to}`]), (flow) => go({ flow })),
    note,
    matrix({
      name: "Rollout", rows: labels(streams.asks), columns: labels(streams.answers),
      at: (row, column) => values[row * shape[1] + column], tell: (text) => (note.textContent = text),
    }),
  );
}

/**
 * @param {HeadsAnswer} found
 * @param {ReadAnswer} answer
 */
function early(found, answer) {
  const [outputs, { label }] = [labels(answer.target), of(answer.target)];
  const head = element("tr", {}, element("th", { scope: "col" }, "after"), ...found.outputs.map((i) => element("th", { scope: "col" }, outputs[i])));
  const rows = found.early.map(({ path, pieces, probabilities, target }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, path),
      ...found.outputs.map((i) => {
        const piece = pieces[i];
        const text = `${label(piece)} ${percent(probabilities[i])}; final output ${outputs[i]}, here ${percent(target[i])}`;
        const cell = element("td", { class: "cell", title: text }, label(piece), element("span", { class: "quiet" }, ` ${percent(probabilities[i])}`));
        cell.style.setProperty("--cell", shade(target[i]));
        return cell;
      }),
    ),
  );
  return section(
    "Predictions after each layer",
    element("p", { class: "quiet" }, "The output layer applied to the hidden states after each layer (logit lens). Brighter: higher probability of the final output."),
    element("div", { class: "scroll", "data-scroll": "early" }, element("table", { class: "early" }, element("thead", {}, head), element("tbody", {}, ...rows))),
  );
}
