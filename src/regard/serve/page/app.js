// The page: the current inputs, six views of them, and a URL fragment that holds the view and its settings.

import { ask, beginView, isSaved, page, savedAddress, settled } from "regard/api.js";
import { element } from "regard/draw.js";
import * as heads from "regard/heads.js";
import * as matter from "regard/matter.js";
import { medium } from "regard/media.js";
import * as positions from "regard/positions.js";
import * as translate from "regard/translate.js";
import * as walk from "regard/walk.js";
import * as whatif from "regard/whatif.js";

/** @type {Record<string, [title: string, module: {draw: (context: Context) => Promise<Child[]>}]>} */
const VIEWS = {
  translate: ["Translate and align", translate],
  heads: ["Heads", heads],
  walk: ["Walk through", walk],
  whatif: ["What if", whatif],
  positions: ["Positions", positions],
  matter: ["Which heads matter", matter],
};
/** @type {Record<string, number | undefined>} */
const STEPS = { ArrowRight: 1, ArrowLeft: -1 };
const DEFAULTS = { view: "translate" };
const WITH_HISTORY = ["view", "target", "part", "key"]; // like inputs, they get an entry in the browser's history
const NUMBERS = ["word", "row", "token", "output", "step", "key", "head", "flow", "length"]; // settings that are ignored if they are no numbers
const INPUT_DEPENDENT = ["word", "row", "token", "output", "step", "key", "other"]; // settings that are reset when the inputs change

const [main, tabs, status, about] = ["main", "tabs", "status", "about"].map((id) => /** @type {HTMLElement} */ (document.getElementById(id)));
const form = /** @type {HTMLFormElement} */ (document.getElementById("sentence"));
const output = /** @type {HTMLInputElement} */ (document.getElementById("target"));
const save = /** @type {HTMLButtonElement} */ (document.getElementById("save"));
let state = read();
/** @type {Record<string, HTMLTextAreaElement>} */
let fields = {}; // one for each role of the model's inputs; empty until the model's description has arrived
/** @type {string | null} */
let filled = null;
let turn = 0;
let isLive = false; // a model that generates nothing answers while the user types
let continues = false; // for a model that continues texts, trailing white space is part of the input
/** @type {number | undefined} */
let typing;

/**
 * The state in the URL fragment.
 *
 * @returns {State}
 */
function read() {
  const address = (location.hash.includes("=") ? location.hash : (savedAddress ?? "")).replace(/^#/, "");
  const settings = [...new URLSearchParams(address)].filter(([name, value]) => !NUMBERS.includes(name) || /^\d{1,5}$/.test(value));
  return { ...DEFAULTS, ...Object.fromEntries(settings) };
}

/**
 * Changes the state, given the changes or a function of the state; null removes a setting. Updates the URL.
 *
 * @type {Go}
 */
function go(given) {
  let changes = typeof given === "function" ? given(state) : given;
  /** @param {string} name */
  const isInput = (name) => name in fields;
  const isSmall = Object.keys(changes).every((name) => !(WITH_HISTORY.includes(name) || isInput(name)) || `${changes[name] ?? ""}` === (state[name] ?? ""));
  if (Object.keys(changes).some((name) => name === "target" || isInput(name))) {
    const places = Object.keys(state).filter((name) => INPUT_DEPENDENT.includes(name.split(".")[0])); // such as other.ROLE
    changes = { ...Object.fromEntries(places.map((name) => [name, null])), ...changes };
  }
  const settings = Object.entries({ ...state, ...changes }).filter(([, value]) => value !== null);
  state = { ...DEFAULTS, ...Object.fromEntries(settings.map(([name, value]) => [name, String(value)])) };
  const address = `#${written()}`;
  if (isSmall) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  show();
}

/** The state as a URL fragment. */
const written = () => `${new URLSearchParams(/** @type {Record<string, string>} */ (state))}`;

/**
 * Makes a field for each input of the model; a single input is labelled with its medium.
 *
 * @param {Model} model
 */
function make({ accepts }) {
  const roles = Object.keys(accepts);
  fields = Object.fromEntries(roles.map((role) => [role, medium(accepts[role]).field(role)]));
  const labels = roles.map((role) => {
    const title = (roles.length === 1 && medium(accepts[role]).title) || role[0].toUpperCase() + role.slice(1);
    fields[role].addEventListener("input", () => {
      clearTimeout(typing);
      if (isLive) typing = setTimeout(() => roles.every(typed) && form.requestSubmit(), 400);
    });
    return element("label", {}, `${title} `, fields[role]);
  });
  form.prepend(...labels);
  const controls = /** @type {Iterable<HTMLInputElement>} */ (isSaved ? form.elements : []);
  for (const control of controls) control.disabled = true;
}

/** Has the model's description arrived, so that the inputs have fields? */
const isReady = () => Object.keys(fields).length > 0;

/** @param {string} role */
const typed = (role) => (continues ? fields[role].value : fields[role].value.trim());

/**
 * The current inputs, by role: those of the URL, or else the example. A single input may be called `text`.
 *
 * @param {Model} model
 * @returns {Inputs}
 */
function currentInputs({ accepts, example }) {
  const roles = Object.keys(accepts);
  if (roles.length === 1 && !("text" in accepts)) {
    state[roles[0]] ??= state.text;
    delete state.text;
  }
  for (const role of roles) state[role] ??= example[role];
  return Object.fromEntries(roles.map((role) => [role, state[role] ?? example[role]]));
}

/**
 * Fills the form with the inputs if they changed, so that text being typed is kept.
 *
 * @param {Inputs} inputs
 */
function fill(inputs) {
  const sentence = JSON.stringify([inputs, state.target]);
  if (sentence === filled) return;
  filled = sentence;
  for (const [role, value] of Object.entries(inputs)) if (typed(role) !== value) fields[role].value = value;
  output.value = state.target ?? "";
}

async function show() {
  const mine = ++turn;
  const view = Object.hasOwn(VIEWS, state.view) ? state.view : DEFAULTS.view;
  for (const tab of tabs.querySelectorAll("button")) {
    const chosen = tab.dataset.view === view;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  const keepsPlace = main.dataset.view === view;
  const wasInside = main.contains(document.activeElement);
  main.dataset.busy = "true";
  save.disabled = true;
  beginView();
  try {
    const model = await ask("model", {});
    if (!isReady()) make(model);
    const inputs = currentInputs(model);
    [isLive, continues] = [!model.writes, model.continues];
    VIEWS.translate[0] = tabs.children[0].textContent = continues ? "Continue and inspect" : isLive ? "Read and inspect" : "Translate and align";
    fill(inputs);
    const question = { inputs, ...(state.target === undefined ? {} : { target: state.target }) };
    document.title = `${VIEWS[view][0]} · ${model.name} · Regard`;
    const size = (model.parameters / 1e6).toFixed(1);
    about.textContent = `${model.name}: ${model.kind}, ${size} million parameters`;
    const drawn = await VIEWS[view][1].draw({ model, state, go, question, isCurrent: () => mine === turn });
    if (mine !== turn) return;
    const focused = keepsPlace ? /** @type {HTMLElement | SVGElement | null} */ (document.activeElement)?.dataset?.focus : undefined;
    const typed = [...main.querySelectorAll("input")].filter((input) => input.type === "text" && input.value !== input.defaultValue);
    const boxes = /** @type {NodeListOf<HTMLElement>} */ (main.querySelectorAll("[data-scroll]"));
    const scrolled = [...boxes].map((box) => ({ name: box.dataset.scroll ?? "", left: box.scrollLeft, top: box.scrollTop }));
    main.replaceChildren(...drawn);
    if (keepsPlace) {
      for (const { name, left, top } of scrolled) {
        main.querySelector(`[data-scroll="${CSS.escape(name)}"]`)?.scrollTo(left, top);
      }
      for (const { name, value } of typed) {
        const input = [...main.querySelectorAll("input")].find((other) => other.name === name);
        if (input) input.value = value;
      }
      const again = focused ? /** @type {HTMLElement | SVGElement | null} */ (main.querySelector(`[data-focus="${CSS.escape(focused)}"]`)) : null;
      again?.focus({ preventScroll: true });
    }
    if (wasInside && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
    status.textContent = "";
    status.className = "";
  } catch (error) {
    if (mine !== turn) return;
    if (!keepsPlace) main.replaceChildren(); // within a view, the old content stays, with the controls to undo the change
    status.textContent = /** @type {Error} */ (error).message;
    status.className = "error";
    const settings = Object.keys(state).filter((name) => !["view", "target"].includes(name) && !(name in fields));
    const undo = () => go(Object.fromEntries(settings.map((name) => [name, null])));
    if (settings.length) status.append(" ", element("button", { type: "button", onclick: undo }, "Reset this view"));
  }
  main.dataset.view = view;
  delete main.dataset.busy;
  settled().then(() => mine === turn && (save.disabled = false));
}

for (const [name, [title]] of Object.entries(VIEWS)) {
  const tab = element("button", { type: "button", role: "tab", "data-view": name, "aria-controls": "main" }, title);
  tab.addEventListener("click", () => go({ view: name }));
  tabs.append(tab);
}
tabs.addEventListener("keydown", (event) => {
  const step = STEPS[event.key];
  if (!step) return;
  const names = Object.keys(VIEWS);
  const next = names[(names.indexOf(state.view) + step + names.length) % names.length];
  go({ view: next });
  tabs.querySelectorAll("button")[names.indexOf(next)].focus();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!isReady()) return; // the model's description has not arrived yet
  const inputs = Object.fromEntries(Object.keys(fields).map((role) => [role, typed(role)]));
  const target = continues ? output.value : output.value.trim();
  // an unchanged output belongs to the old inputs
  const isOld = Object.keys(inputs).some((role) => inputs[role] !== state[role]) && target === (state.target ?? "");
  go({ ...inputs, target: isOld ? null : target || null });
});
addEventListener("popstate", () => {
  state = read();
  show();
});
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault(); // the URL fragment holds the view
  main.focus();
});
save.addEventListener("click", async () => {
  const blob = await page(written()).catch((error) => {
    status.textContent = error.message;
    status.className = "error";
  });
  if (!blob) return;
  const link = element("a", { href: URL.createObjectURL(blob), download: `regard-${state.view}.html` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
if (isSaved) save.remove();
show();
