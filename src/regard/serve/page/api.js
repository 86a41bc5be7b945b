// Requests to the server. An answer depends only on its request, so answers are cached, and a view can be saved with them.

/** @type {Saved | null} */
const saved = JSON.parse(document.getElementById("saved")?.textContent ?? "null");
/** @type {Map<string, Promise<any>>} */
const cache = new Map();
const CACHE_SIZE = 100;
/** @type {Map<string, [verb: string, args: object]>} */
let requested = new Map();

export const isSaved = saved !== null;
export const savedAddress = saved?.address;

/**
 * The answer to a request: plain data, or { shape, values } for a tensor.
 *
 * @template {keyof Verbs} V
 * @param {V} verb
 * @param {Verbs[V]["args"]} args
 * @returns {Promise<Verbs[V]["answer"]>}
 */
export function ask(verb, args) {
  const key = canonical([verb, args]);
  requested.set(key, [verb, args]);
  const known = cache.get(key);
  if (known === undefined) {
    const answer = saved ? recall(saved, key) : post(verb, args).then(unpack);
    cache.set(key, answer);
    answer.catch(() => cache.delete(key) && requested.delete(key)); // so that the request can be repeated
    const [oldest] = cache.keys();
    if (cache.size > CACHE_SIZE) cache.delete(oldest);
    return answer;
  }
  return known;
}

/**
 * Streams the output: calls `show` with each partial output and the attention of its last token, until it returns false.
 *
 * @param {Inputs} inputs
 * @param {(growing: Growing) => boolean} show
 */
export async function generate(inputs, show) {
  if (isSaved) return;
  const response = await post("generate", { inputs });
  const body = /** @type {ReadableStream} */ (response.body);
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    if (!lines.every((line) => show(JSON.parse(line)))) return void reader.cancel();
  }
}

/** Forgets the requests of the previous view. */
export function beginView() {
  requested = new Map();
}

/** Waits until all requests are answered, including those made in the meantime. */
export async function settled() {
  for (let count = -1; count !== requested.size; ) {
    count = requested.size;
    await Promise.allSettled([...requested.keys()].map((key) => cache.get(key)));
    await new Promise((resolve) => setTimeout(resolve)); // an answer may lead to another request
  }
}

/**
 * A single HTML file with this view and all its answers.
 *
 * @param {string} address
 */
export async function page(address) {
  return (await post("page", { address, asked: [...requested.values()] })).blob();
}

/**
 * @param {string} verb
 * @param {object} args
 */
async function post(verb, args) {
  let response;
  try {
    response = await fetch(`api/${verb}`, { method: "POST", body: JSON.stringify(args) });
  } catch {
    throw new Error("the explorer's server does not answer; if it has stopped, start it again with: regard explore");
  }
  if (!response.ok) {
    const { error } = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
    throw new Error(error);
  }
  return response;
}

/** @param {Response} response */
async function unpack(response) {
  const shape = response.headers.get("x-shape");
  if (shape === null) return response.json();
  return { shape: shape.split(",").map(Number), values: floats(await response.arrayBuffer()) };
}

/**
 * @param {Saved} saved
 * @param {string} key
 */
async function recall(saved, key) {
  const answer = saved.answers[key];
  if (answer === undefined) throw new Error("The saved page does not contain this view; run regard explore to see it.");
  if (answer.half === undefined) return answer.json;
  const bytes = Uint8Array.from(atob(answer.half), (character) => character.charCodeAt(0));
  return { shape: answer.shape, values: floats(bytes.buffer) };
}

/**
 * Converts half precision to numbers: a sign bit, five bits of exponent, ten of fraction.
 *
 * @param {ArrayBuffer} buffer
 */
export function floats(buffer) {
  const view = new DataView(buffer);
  return Float32Array.from({ length: buffer.byteLength / 2 }, (_, i) => {
    const bits = view.getUint16(2 * i, true);
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  });
}

/**
 * @param {unknown} value
 * @returns {string}
 */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const fields = /** @type {Record<string, unknown>} */ (value);
  const entries = Object.keys(fields).sort().map((key) => `${JSON.stringify(key)}:${canonical(fields[key])}`);
  return `{${entries.join(",")}}`;
}
