// What if: switch off heads, change a word, drop the mask, the scaling or the positions, and compare the outputs.

import { ask } from "regard/api.js";
import { element, number, percent, section, signed } from "regard/draw.js";
import { chosenToken, labels, medium, of, outputChoice } from "regard/media.js";

/** @typedef {(name: string, item: string) => () => void} Flip */

/** @param {string | undefined} text */
const split = (text) => (text ? text.split(",") : []);

/** @param {Context} context */
export async function draw({ model, state, go, question }) {
  const [off, mask, scaling, positions] = ["off", "mask", "scaling", "positions"].map((name) => split(state[name]).filter((item) => name !== "off" || /:\d{1,5}$/.test(item)));
  /** @type {Record<string, number[]>} */
  const heads = Object.create(null); // a path may have any name
  for (const item of off) {
    const [path, head] = item.split(":");
    (heads[path] ??= []).push(Number(head));
  }
  const roles = Object.keys(model.accepts);
  /** @param {string} role */
  const parameter = (role) => (roles.length === 1 ? "other" : `other.${role}`);
  /** @param {string} role */
  const isOther = (role) => ![undefined, question.inputs[role]].includes(state[parameter(role)]);
  const other = /** @type {Inputs} */ (Object.fromEntries(roles.filter(isOther).map((role) => [role, state[parameter(role)]])));
  const changes = { heads, mask, scaling, positions };
  const answer = await ask("what-if", { ...question, ...chosenToken(state), change: changes, ...(Object.keys(other).length ? { other } : {}) });
  /** @type {(form: HTMLFormElement) => Changes} */
  const read = (form) => Object.fromEntries(roles.map(parameter).map((name) => [name, form[name].value.trim() || null]));
  const fields = roles.map((role) => {
    const name = roles.length === 1 ? "Change the input " : `Change the input (${role}) `;
    return element("label", {}, name, medium(model.accepts[role]).otherField(parameter(role), state[parameter(role)] ?? question.inputs[role]));
  });
  const undone = Object.fromEntries(["off", "mask", "scaling", "positions", ...roles.map(parameter)].map((name) => [name, null]));
  /** @type {Flip} */
  const flip = (name, item) => () =>
    go((now) => {
      const list = split(now[name]);
      const next = list.includes(item) ? list.filter((one) => one !== item) : [...list, item];
      return { [name]: next.length ? next.join(",") : null };
    });
  return [
    section(
      "Interventions",
      element(
        "form",
        { class: "controls", onsubmit: (event) => (event.preventDefault(), go(read(/** @type {HTMLFormElement} */ (event.target)))) },
        ...fields,
        element("button", { "data-focus": "change" }, "Apply"),
        element("button", { type: "button", "data-focus": "undo", onclick: () => go(undone) }, "Reset"),
      ),
      switches(model, { off, mask, scaling }, flip),
      ...model.positions.paths.map((path) => box(`positions: ${path}`, !positions.includes(path), flip("positions", path))),
    ),
    element(
      "div",
      { class: "pair" },
      section("Before the change", predicted(answer.own)),
      section("After the change", predicted(answer.changed)),
    ),
    section(
      "The original output after the change",
      element("div", { class: "controls" }, outputChoice(answer.original, state, go)),
      ...(answer.given ? [compared(answer.original, answer.given), against(answer.original, answer.given)] : [element("p", {}, "The original output does not fit the changed input.")]),
    ),
  ];
}

/**
 * @param {Prediction} before
 * @param {Prediction} after
 */
function compared(before, after) {
  const [one, other] = [before.log_probability, after.log_probability];
  if (!before.outputs.length) return element("p", {}, "The model predicts nothing for this input (a masked language model predicts masked tokens only). Choose a token.");
  return element("p", {}, `log p of the original output: ${number(one)} before, ${number(other)} after the change (${number(other - one)}).`);
}

/**
 * @param {Model} model
 * @param {{off: string[], mask: string[], scaling: string[]}} dropped
 * @param {Flip} flip
 */
function switches(model, { off, mask, scaling }, flip) {
  const maximum = Math.max(0, ...model.looks.map((look) => look.heads));
  const head = element("tr", {}, ...["attention", ...Array(maximum).keys(), "mask", "÷ √K"].map((text) => element("th", { scope: "col" }, String(text))));
  const rows = model.looks.map(({ path, heads, scaled }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, path),
      ...[...Array(maximum).keys()].map((i) => element("td", {}, ...(i < heads ? [box(`${path}, head ${i}`, !off.includes(`${path}:${i}`), flip("off", `${path}:${i}`), true)] : []))),
      element("td", {}, box(`${path}, mask`, !mask.includes(path), flip("mask", path), true)),
      element("td", {}, ...(scaled ? [box(`${path}, scaling`, !scaling.includes(path), flip("scaling", path), true)] : [])),
    ),
  );
  return element("div", { class: "scroll", "data-scroll": "switches" }, element("table", { class: "switches" }, element("thead", {}, head), element("tbody", {}, ...rows)));
}

/**
 * @param {string} name
 * @param {boolean} checked
 * @param {() => void} change
 */
function box(name, checked, change, isQuiet = false) {
  const input = element("input", { type: "checkbox", checked, onchange: change, "data-focus": `box ${name}`, "aria-label": name });
  return isQuiet ? input : element("label", { class: "check" }, input, ` ${name}`);
}

/** @param {Prediction} spoken */
function predicted(spoken) {
  const { probabilities, outputs, log_probability: total } = spoken;
  const tokens = labels(spoken).map((name, i) =>
    outputs.includes(i) ? element("span", { class: "token" }, name, element("small", { class: "quiet" }, ` ${percent(probabilities[i])}`)) : element("span", { class: "token quiet" }, name),
  );
  return element("div", {}, element("p", { class: "tokens" }, ...tokens), element("p", { class: "quiet" }, `log p ${number(total)}`));
}

/**
 * @param {Prediction} before
 * @param {Prediction} after
 */
function against(before, after) {
  const { label } = of(after);
  const names = labels(before);
  const rows = before.outputs.map((place, i) => {
    const [one, other] = [before.probabilities[place], after.probabilities[after.outputs[i]]];
    const change = Math.log(other || 1e-30) - Math.log(one || 1e-30);
    const cell = element("td", { class: "signed" }, number(change));
    cell.style.setProperty("--cell", signed(change, 3));
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, names[place]),
      element("td", {}, percent(one)),
      element("td", {}, percent(other)),
      cell,
      element("td", { class: "quiet" }, after.others[after.outputs[i]].slice(0, 3).map(([piece, p]) => `${label(piece)} ${percent(p)}`).join("   ")),
    );
  });
  const head = ["token", "before", "after", "Δ log p", "now most probable"].map((text) => element("th", { scope: "col" }, text));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}
