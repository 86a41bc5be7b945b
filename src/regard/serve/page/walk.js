// Walk through: the computation for one token, step by step, with the model's own numbers.

import { ask } from "regard/api.js";
import { choice, element, largest, number, percent, section, shade, signed, strip } from "regard/draw.js";
import { labels, of } from "regard/media.js";

/** @param {Context} context */
export async function draw({ model, state, go, question }) {
  const answer = await ask("read", question);
  const parts = answer.output_part ? [...model.parts, answer.output_part] : model.parts;
  const part = parts.find(({ path }) => path === state.part);
  /** @type {Child[]} */
  const crumbs = [element("button", { type: "button", class: "plain", "data-focus": "crumb", onclick: () => go({ part: null, key: null, step: null }) }, model.name)];
  if (part === undefined) return [trail(crumbs), stack(parts, answer, go)];

  // in the output stream, a token goes in and the next one is predicted
  const predicted = part.stream === answer.output_stream ? labels(answer.target).map((name) => ` → ${name}`) : [];
  const pieces = labels(answer.streams[part.stream]).map((name, i) => `${name}${predicted[i] ?? ""}`);
  const token = Math.min(Number(state.token ?? 1), pieces.length - 1);
  const heads = Math.max(1, ...looksOf(part, model).map((look) => look.heads));
  const head = Math.min(Number(state.head ?? 0), heads - 1);
  const { steps, outputs } = await ask("walk", { ...question, path: part.path, token, head });
  crumbs.push(element("button", { type: "button", class: "plain", "data-focus": "crumb part", onclick: () => go({ key: null, step: null }) }, part.path));
  crumbs.push(`“${pieces[token]}”`);
  if (heads > 1) crumbs.push(`head ${head}`);

  const at = parts.indexOf(part);
  /** @param {number} i */
  const isLinked = (i) => parts[i] && (parts[i].stream === part.stream || [part, parts[i]].includes(/** @type {Part} */ (answer.output_part)));
  /** @param {number} i */
  const beside = (i) => isLinked(i) && (() => go({ part: parts[i].path, key: null, step: null }));
  const controls = element(
    "div",
    { class: "controls" },
    choice("Token", "token", token, pieces.map((piece, i) => [i, `${i}: ${piece}`]), (chosen) => go({ token: chosen, key: null })),
    choice("Part", "part", part.path, parts.map(({ path }) => [path, path]), (chosen) => go({ part: chosen, key: null, step: null })),
    ...(heads > 1 ? [choice("Head", "head", head, [...Array(heads).keys()].map((i) => [i, i]), (chosen) => go({ head: chosen }))] : []),
    element("button", { type: "button", disabled: !beside(at - 1), onclick: beside(at - 1) || null, "data-focus": "before" }, "← previous"),
    element("button", { type: "button", disabled: !beside(at + 1), onclick: beside(at + 1) || null, "data-focus": "after" }, "next →"),
  );
  const zoomed = state.key !== undefined && state.step !== undefined ? product(steps, Number(state.step), Number(state.key), answer, model, part) : null;
  if (zoomed) crumbs.push(`dot product with “${zoomed.key}”`);
  const list = steps.map((step, i) => shown(step, i, steps, { answer, model, part, outputs, go }));
  const note = part === answer.output_part ? [element("p", { class: "note" }, prediction(steps, answer, token))] : [];
  return [trail(crumbs), controls, ...(zoomed ? [zoomed.section] : []), element("ol", { class: "steps" }, ...list), ...note];
}

/** @typedef {{answer: ReadAnswer, model: Model, part: Part}} Place */
/** @typedef {Place & {outputs: string[], go: Go}} Walk */

/**
 * What the last step of the output says of the target.
 *
 * @param {Step[]} steps
 * @param {ReadAnswer} answer
 * @param {number} token
 */
function prediction(steps, answer, token) {
  const name = labels(answer.target)[token];
  if (steps[steps.length - 1].name !== "softmax") return `Prediction: ${name}`;
  return `“${name}” has probability ${percent(answer.spoken.probabilities[token])}. Only the most probable outputs are shown.`;
}

/** @type {(step: Step) => step is RowsStep} */
const isRows = (step) => step.axes.length === 2;

/** @type {(step: Step) => step is VectorStep} */
const isVector = (step) => step.axes.length === 1;

/** @param {Child[]} crumbs */
const trail = (crumbs) => element("nav", { class: "trail", "aria-label": "Breadcrumb" }, ...crumbs.flatMap((crumb, i) => (i ? [" › ", crumb] : [crumb])));

/**
 * The whole model: the parts that process each stream.
 *
 * @param {Part[]} all
 * @param {ReadAnswer} answer
 * @param {Go} go
 */
function stack(all, answer, go) {
  const streams = [...new Set(all.map(({ stream }) => stream))];
  const columns = streams.map((stream) => {
    const parts = all.filter((part) => part.stream === stream);
    const buttons = parts.map((part) =>
      element("li", {}, element("button", { type: "button", "data-focus": part.path, onclick: () => go({ part: part.path }) }, part.path, element("span", { class: "quiet" }, ` ${part.block}`))),
    );
    const pieces = labels(answer.streams[stream]).map((name) => element("span", { class: "token" }, name));
    return section(stream, element("p", { class: "tokens" }, ...pieces), element("ol", { class: "stack" }, ...buttons));
  });
  return element("div", { class: "pair" }, ...columns);
}

/**
 * @param {Step} step
 * @param {number} index
 * @param {Step[]} steps
 * @param {Walk} context
 */
function shown(step, index, steps, context) {
  const { code } = step;
  const link = code && element("button", { type: "button", class: "plain code", onclick: () => source(code) }, `${code.file}:${code.line}`);
  const about = element("p", { class: "quiet" }, element("span", { class: "equation" }, step.equation), ` · ${step.shape}`, ...(link ? [" · ", link] : []));
  const title = element("h3", {}, `${index + 1}. ${step.name}`);
  return element("li", {}, title, about, values(step, index, steps, context));
}

/**
 * @param {Step} step
 * @param {number} index
 * @param {Step[]} steps
 * @param {Walk} context
 */
function values(step, index, steps, context) {
  if (isVector(step) && step.axes[0] === "features") return strip(step.values, { name: step.name });
  const isOutput = step.axes[0] === "outputs";
  const keys = isOutput ? context.outputs.map(of(context.answer.target).label) : keyNames(step.values.length, index, steps, context);
  if (isRows(step)) {
    const size = largest(step.values);
    const rows = step.values.map((row, i) => element("div", { class: "keyed" }, element("span", { class: "key" }, keys[i]), strip(row, { name: keys[i], size })));
    return element("details", { open: step.values.length <= 12 }, element("summary", {}, `${rows.length} keys`), ...rows);
  }
  const isWeight = step.name === "softmax";
  const size = largest(step.values);
  const isDot = step.name === "dot products";
  const cells = step.values.map((value, i) => {
    const inside = [element("span", { class: "key" }, keys[i]), element("span", { class: "value" }, isOutput && isWeight && value !== null ? percent(value) : number(value))];
    const colour = value === null ? "transparent" : isWeight ? shade(value) : signed(value, size);
    const open = { type: "button", "data-focus": `key ${index} ${i}`, title: "Open this dot product", onclick: () => context.go({ step: index, key: i }) };
    const cell = element(isDot ? "button" : "span", { class: "cell", ...(isDot ? open : {}) }, ...inside);
    cell.style.setProperty("--cell", colour);
    return cell;
  });
  return element("div", { class: "cells" }, ...cells);
}

/**
 * The attentions inside a part; `layer.attention@2` is inside `layer@2`.
 *
 * @param {Part} part
 * @param {Model} model
 */
function looksOf(part, model) {
  const [path, depth] = part.path.split("@");
  return model.looks.filter((look) => {
    const [other, otherDepth] = look.path.split("@");
    return (other === path || other.startsWith(`${path}.`)) && (depth === undefined || otherDepth === depth);
  });
}

/**
 * The labels of the keys: tokens of the part's own stream, or of the one that it attends to.
 *
 * @param {number} count
 * @param {number} index
 * @param {Step[]} steps
 * @param {Place} place
 */
function keyNames(count, index, steps, { answer, model, part }) {
  const looks = looksOf(part, model);
  const which = steps.slice(0, index + 1).filter(({ name }) => name === "query" || name === "state").length - 1;
  const stream = answer.streams[looks[Math.max(0, which)]?.answers ?? part.stream];
  return labels(stream).slice(0, count);
}

/**
 * One dot product, element by element.
 *
 * @param {Step[]} steps
 * @param {number} index
 * @param {number} key
 * @param {ReadAnswer} answer
 * @param {Model} model
 * @param {Part} part
 */
function product(steps, index, key, answer, model, part) {
  const before = steps.slice(0, index).reverse();
  const query = before.filter(isVector).find(({ name }) => name.endsWith("query"));
  const keys = before.filter(isRows).find(({ name }) => name.endsWith("keys"));
  if (!query || !keys || key >= keys.values.length) return null;
  const name = keyNames(keys.values.length, index, steps, { answer, model, part })[key];
  const products = query.values.map((value, i) => (value ?? 0) * (keys.values[key][i] ?? 0));
  const sum = products.reduce((total, value) => total + value, 0);
  const size = largest([query.values, keys.values[key]]);
  const rows = query.values.map((value, i) => element("tr", {}, ...[i, value, keys.values[key][i], products[i]].map((cell, j) => element("td", {}, j ? number(cell) : String(cell)))));
  const head = element("tr", {}, ...["", "q", "k", "q · k"].map((text) => element("th", { scope: "col" }, text)));
  return {
    key: name,
    section: section(
      `q · k for “${name}” = ${number(sum)}`,
      element("p", { class: "quiet" }, `The sum of ${products.length} products.`),
      strip(query.values, { name: "q", size }),
      strip(keys.values[key], { name: "k", size }),
      strip(products, { name: "products" }),
      element("details", {}, element("summary", {}, "All numbers"), element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))),
    ),
  };
}

/**
 * Opens the source code at the line that computes a step.
 *
 * @param {Code} code
 */
async function source({ file, line }) {
  const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("code"));
  const title = /** @type {HTMLElement} */ (dialog.querySelector("h2"));
  const pre = /** @type {HTMLElement} */ (dialog.querySelector("pre"));
  title.textContent = `${file}:${line}`;
  dialog.showModal();
  const { lines } = await ask("code", { file }).catch((error) => ({ lines: [error.message] }));
  pre.replaceChildren(...lines.map((text, i) => element("span", { class: i + 1 === line ? "line chosen" : "line", "data-line": i + 1 }, `${text}\n`)));
  pre.querySelector(".chosen")?.scrollIntoView({ block: "center" });
}
