// Figures: matrices, lines between tokens, strips of numbers. The colour maps are safe for colour-blind readers.

const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
const LABEL = 16; // maximum characters of a label
const SMALL = 72; // maximum width and height of a thumbnail in pixels
const BELOW = "#2166ac";
const ABOVE = "#d9720d";
/** @typedef {HTMLDivElement & {repaint: () => void}} Matrix */
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => {
  for (const box of /** @type {NodeListOf<Matrix>} */ (document.querySelectorAll(".matrix"))) box.repaint();
});

/**
 * An element with attributes and children; text is never parsed as markup.
 *
 * @template {keyof HTMLElementTagNameMap} N
 * @param {N} name
 * @param {Attributes} attributes
 * @param {Child[]} children
 * @returns {HTMLElementTagNameMap[N]}
 */
export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  fill(node, attributes);
  node.append(...children);
  return node;
}

/**
 * @template {keyof SVGElementTagNameMap} N
 * @param {N} name
 * @param {Attributes} attributes
 * @param {Child[]} children
 * @returns {SVGElementTagNameMap[N]}
 */
function drawing(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  fill(node, attributes);
  node.append(...children);
  return node;
}

/**
 * @param {Element} node
 * @param {Attributes} attributes
 */
function fill(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value); // the name starts with "on"
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * A section of a view, with its title.
 *
 * @param {string} title
 * @param {Child[]} children
 */
export function section(title, ...children) {
  return element("section", {}, element("h2", {}, title), ...children);
}

/**
 * A select box; an option is a value and its name, a group is { group, options }.
 *
 * @param {string} label
 * @param {string} name
 * @param {string | number} chosen
 * @param {(Option | OptionGroup)[]} options
 * @param {(value: string) => void} change
 */
export function choice(label, name, chosen, options, change) {
  /** @param {Option} option */
  const option = ([value, text]) => element("option", { value, selected: String(value) === String(chosen) }, String(text));
  const list = options.map((o) => (Array.isArray(o) ? option(o) : element("optgroup", { label: o.group }, ...o.options.map(option))));
  const select = element("select", { "data-focus": name, name }, ...list);
  select.addEventListener("change", () => change(select.value));
  return element("label", {}, `${label} `, select);
}

/**
 * The colour of a weight from 0 to 1.
 *
 * @param {number} weight
 */
export function shade(weight) {
  const place = Math.min(1, Math.max(0, weight || 0)) * (CIVIDIS.length - 1);
  const low = Math.min(CIVIDIS.length - 2, Math.floor(place));
  return mix(CIVIDIS[low], CIVIDIS[low + 1], place - low);
}

/**
 * The colour of a signed number: the background's at 0, stronger for larger magnitudes.
 *
 * @param {number} value
 * @param {number} largest
 */
export function signed(value, largest) {
  const fraction = largest ? Math.min(1, Math.abs(value) / largest) : 0;
  return mix(dark.matches ? "#2b3138" : "#eceff2", value < 0 ? BELOW : ABOVE, fraction);
}

/**
 * @param {string} one
 * @param {string} other
 * @param {number} fraction
 */
function mix(one, other, fraction) {
  /** @param {number} i */
  const part = (i) => {
    const [a, b] = [one, other].map((colour) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16));
    return Math.round(a + (b - a) * fraction);
  };
  return `rgb(${part(0)} ${part(1)} ${part(2)})`;
}

/**
 * Formats a number.
 *
 * @param {Numeric} value
 */
export function number(value) {
  if (value === null || Number.isNaN(value)) return "–";
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  return value.toFixed(Math.abs(value) >= 100 ? 1 : 3);
}

/** @param {Numeric} value */
export const percent = (value) => (value === null ? "–" : `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`);

/**
 * Elements or texts with a separator between them.
 *
 * @template T
 * @param {T[]} items
 * @param {string} separator
 * @returns {(T | string)[]}
 */
export const spaced = (items, separator) => items.flatMap((item, i) => (i ? [separator, item] : [item]));

/**
 * A matrix with a row for each query and a column for each key. Only the visible part is drawn, so
 * that hundreds of tokens scroll smoothly. Arrow keys move from cell to cell.
 *
 * @param {Weights & {name: string,
 *   colour?: (value: number) => string, chosen?: [row: number, column: number] | null, cell?: number,
 *   tell?: (text: string, row: number, column: number) => void, choose?: (row: number, column: number) => void}} options
 */
export function matrix({ name, rows, columns, at, colour = shade, chosen, tell, choose, cell = fitting(rows, columns) }) {
  const font = `${Math.min(13, cell)}px system-ui, sans-serif`;
  const left = 12 + widest(rows, font);
  const slanted = widest(columns, font);
  const top = 14 + 0.87 * slanted;
  const lean = Math.max(0, 0.5 * slanted + 10 - cell / 2); // the last slanted label exceeds the edge
  const [width, height] = [left + cell * columns.length + lean + 1, top + cell * rows.length + 1];
  const canvas = element("canvas", { class: "sticky" });
  const canvasArea = element("div", {}, canvas);
  Object.assign(canvasArea.style, { width: `${width}px`, height: `${height}px` });
  const box = element(
    "div",
    { class: "matrix", tabindex: 0, role: "application", "aria-roledescription": "matrix", "data-focus": name, "data-scroll": name, "aria-label": describe() },
    canvasArea,
  );
  const place = JSON.stringify([name, rows, columns]);
  let current = chosen ?? places.get(place) ?? null;

  function describe() {
    return `${name}: ${rows.length} rows, ${columns.length} columns; arrow keys move from cell to cell`;
  }

  function paint() {
    const [w, h] = [Math.min(box.clientWidth, width), Math.min(box.clientHeight, height)];
    if (!w || !h) return;
    const scale = devicePixelRatio || 1;
    canvas.width = w * scale;
    canvas.height = h * scale;
    canvas.style.width = `${w}px`;
    canvas.style.height = `${h}px`;
    const style = getComputedStyle(box);
    const pen = penOf(canvas);
    pen.scale(scale, scale);
    pen.font = font;
    const [x0, y0] = [box.scrollLeft, box.scrollTop];
    const [firstColumn, firstRow] = [Math.floor(x0 / cell), Math.floor(y0 / cell)];
    const lastColumn = Math.min(columns.length - 1, Math.ceil((x0 + w - left) / cell));
    const lastRow = Math.min(rows.length - 1, Math.ceil((y0 + h - top) / cell));
    for (let row = firstRow; row <= lastRow; row++) {
      for (let column = firstColumn; column <= lastColumn; column++) {
        const value = at(row, column);
        if (value === null || Number.isNaN(value)) continue;
        pen.fillStyle = colour(value);
        pen.fillRect(left + column * cell - x0, top + row * cell - y0, cell - 1, cell - 1);
      }
    }
    if (current) {
      pen.strokeStyle = style.getPropertyValue("--accent");
      pen.lineWidth = 2;
      pen.strokeRect(left + current[1] * cell - x0, top + current[0] * cell - y0, cell - 1, cell - 1);
    }
    // the labels stay visible; cells scroll under them
    pen.fillStyle = style.getPropertyValue("--paper");
    pen.fillRect(0, 0, left - 1, h);
    pen.fillRect(0, 0, w, top - 1);
    pen.fillStyle = style.getPropertyValue("--ink");
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let row = firstRow; row <= lastRow; row++) {
      const y = top + (row + 0.5) * cell - y0;
      if (y > top) pen.fillText(short(rows[row]), left - 6, y);
    }
    pen.textAlign = "left";
    for (let column = firstColumn; column <= lastColumn; column++) {
      const x = left + (column + 0.5) * cell - x0;
      if (x < left) continue;
      pen.save();
      pen.translate(x, top - 6);
      pen.rotate(-Math.PI / 3);
      pen.fillText(short(columns[column]), 0, 0);
      pen.restore();
    }
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  function move(row, column) {
    if (row < 0 || column < 0 || row >= rows.length || column >= columns.length) return;
    if (current?.[0] === row && current?.[1] === column) return;
    current = [row, column];
    places.clear(); // only the last matrix is remembered
    places.set(place, current);
    const text = `${rows[row]} → ${columns[column]}: ${number(at(row, column))}`;
    box.title = text;
    box.setAttribute("aria-label", text);
    tell?.(text, row, column);
    paint();
  }

  /**
   * Scrolls until a cell is visible.
   *
   * @param {number} row
   * @param {number} column
   */
  function reveal(row, column) {
    const [x, y] = [column * cell, row * cell];
    const [w, h] = [box.clientWidth - left - cell, box.clientHeight - top - cell];
    box.scrollTo(Math.min(x, Math.max(box.scrollLeft, x - w)), Math.min(y, Math.max(box.scrollTop, y - h)));
  }

  /**
   * @param {MouseEvent} event
   * @returns {[row: number, column: number] | null}
   */
  function under(event) {
    const bounds = box.getBoundingClientRect();
    const x = event.clientX - bounds.left - box.clientLeft;
    const y = event.clientY - bounds.top - box.clientTop;
    if (x < left || y < top) return null;
    return [Math.floor((y - top + box.scrollTop) / cell), Math.floor((x - left + box.scrollLeft) / cell)];
  }

  box.addEventListener("pointermove", (event) => {
    const place = under(event);
    if (place) move(...place);
  });
  box.addEventListener("click", (event) => {
    const place = under(event);
    if (!place || place[0] >= rows.length || place[1] >= columns.length) return;
    move(...place); // on touch screens, which have no hover
    choose?.(...place);
  });
  box.addEventListener("keydown", (event) => {
    const step = MOVES[event.key];
    if (step) {
      event.preventDefault();
      if (current) move(current[0] + step[0], current[1] + step[1]);
      else move(0, 0);
      if (current) reveal(...current);
    } else if (event.key === "Enter" && current) choose?.(...current);
  });
  box.addEventListener("scroll", () => requestAnimationFrame(paint), { passive: true });
  new ResizeObserver(paint).observe(box);
  return Object.assign(box, { repaint: paint });
}

/** @type {Record<string, [rows: number, columns: number] | undefined>} */
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
/** @type {Map<string, [row: number, column: number]>} */
const places = new Map();
/** @type {(rows: string[], columns: string[]) => number} */
const fitting = (rows, columns) => (rows.length > 64 || columns.length > 64 ? 12 : 26);
/** @param {string} text */
const short = (text) => ([...text].length > LABEL ? `${[...text].slice(0, LABEL - 1).join("")}…` : text);
/** @param {HTMLCanvasElement} canvas */
const penOf = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
const ruler = penOf(document.createElement("canvas"));

/**
 * The width of the widest label.
 *
 * @param {string[]} labels
 * @param {string} font
 */
function widest(labels, font) {
  ruler.font = font;
  return labels.reduce((maximum, text) => Math.max(maximum, ruler.measureText(short(text)).width), 8);
}

/**
 * A small matrix without labels.
 *
 * @param {{rows: number, columns: number, at: At, title: string, chosen: boolean, choose: () => void, focus: string}} options
 */
export function thumbnail({ rows, columns, at, title, chosen, choose, focus }) {
  const [width, height] = [Math.min(columns, SMALL), Math.min(rows, SMALL)];
  const canvas = element("canvas", { width, height, "aria-hidden": "true" });
  const pen = penOf(canvas);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      // a pixel shows the maximum of its cells
      let weight = 0;
      for (let row = Math.floor((y * rows) / height); row < ((y + 1) * rows) / height; row++) {
        for (let column = Math.floor((x * columns) / width); column < ((x + 1) * columns) / width; column++) {
          weight = Math.max(weight, at(row, column));
        }
      }
      pen.fillStyle = shade(weight);
      pen.fillRect(x, y, 1, 1);
    }
  }
  return element(
    "button",
    { type: "button", class: "thumbnail", title, "aria-label": title, "aria-pressed": String(chosen), "data-focus": focus, onclick: choose },
    canvas,
  );
}

/**
 * Lines from queries to keys; their width shows the weight. If a query is chosen, only its lines are drawn.
 *
 * @param {Weights & {name: string, row: number | null, choose: (row: number | null) => void}} options
 */
export function lines({ name, rows, columns, at, row, choose }) {
  const pitch = 24;
  const edge = 12 + widest(rows, "13px system-ui, sans-serif");
  const width = edge + 140 + widest(columns, "13px system-ui, sans-serif");
  const height = pitch * Math.max(rows.length, columns.length) + 8;
  /** @param {number} i */
  const y = (i) => 4 + pitch * (i + 0.5);
  const strokes = drawing("g");
  const svg = drawing("svg", { viewBox: `0 0 ${width} ${height}`, class: "lines", role: "group", "aria-label": name }, strokes);

  /** @param {number | null} chosen */
  function paint(chosen) {
    strokes.replaceChildren();
    const from = chosen === null ? (rows.length > 64 ? [] : rows.keys()) : [chosen];
    for (const r of from) {
      for (let c = 0; c < columns.length; c++) {
        const weight = at(r, c);
        if (!(weight > 0.02)) continue;
        const stroke = { x1: edge, y1: y(r), x2: edge + 120, y2: y(c), "stroke-width": 0.5 + 3.5 * weight, "stroke-opacity": Math.min(1, 0.15 + weight) };
        strokes.append(drawing("line", stroke));
      }
    }
    for (const node of /** @type {NodeListOf<SVGElement>} */ (svg.querySelectorAll("[data-row]"))) {
      node.classList.toggle("chosen", Number(node.dataset.row) === chosen);
    }
  }

  rows.forEach((text, i) => {
    const node = drawing(
      "text",
      {
        x: edge - 6, y: y(i), "text-anchor": "end", tabindex: i === (row ?? 0) ? 0 : -1, role: "button", "data-row": i, "data-focus": `${name} ${i}`,
        "aria-label": `${text} attends to ${strongest(columns, at, i)}`,
        onpointerenter: () => paint(i), onpointerleave: () => paint(row), onfocus: () => paint(i), onblur: () => paint(row),
        onclick: () => choose(i === row ? null : i),
        onkeydown: (event) => {
          const move = MOVES[event.key]?.[0];
          if (move) /** @type {SVGElement | null} */ (svg.querySelector(`[data-row="${i + move}"]`))?.focus();
          else if (event.key === "Enter" || event.key === " ") choose(i === row ? null : i);
          else return;
          event.preventDefault();
        },
      },
      short(text),
    );
    svg.append(node);
  });
  columns.forEach((text, i) => svg.append(drawing("text", { x: edge + 128, y: y(i) }, short(text))));
  paint(row);
  return svg;
}

/**
 * @param {string[]} columns
 * @param {At} at
 * @param {number} row
 */
function strongest(columns, at, row) {
  const order = [...columns.keys()].sort((a, b) => at(row, b) - at(row, a)).slice(0, 3);
  return order.map((c) => `${columns[c]} ${percent(at(row, c))}`).join(", ");
}

/**
 * The largest absolute value of some numbers or lists of numbers.
 *
 * @param {(Numeric | Numeric[])[]} values
 * @returns {number}
 */
export function largest(values) {
  let maximum = 1e-9;
  for (const value of values) maximum = Math.max(maximum, Array.isArray(value) ? largest(value) : Math.abs(value ?? 0));
  return maximum;
}

/**
 * A vector as a strip of coloured cells; the pointer or the arrow keys select the number to show.
 *
 * @param {Numeric[]} values
 * @param {{name: string, size?: number}} options
 */
export function strip(values, { name, size = largest(values) }) {
  const canvas = element("canvas", { width: values.length, height: 1, class: "strip", role: "application", "aria-roledescription": "vector", tabindex: 0 });
  const pen = penOf(canvas);
  values.forEach((value, i) => {
    if (value === null) return;
    pen.fillStyle = signed(value, size);
    pen.fillRect(i, 0, 1, 1);
  });
  canvas.setAttribute("aria-label", `${name}: ${values.length} numbers, ${values.slice(0, 4).map(number).join(", ")} …`);
  const show = element("output", { class: "numbers" }, first(values));
  let at = -1;
  /** @param {number} i */
  const tell = (i) => {
    at = Math.min(values.length - 1, Math.max(0, i));
    show.textContent = `[${at}] = ${values[at] ?? "–"}`;
  };
  canvas.addEventListener("pointermove", (event) => tell(Math.floor((event.offsetX / canvas.clientWidth) * values.length)));
  canvas.addEventListener("keydown", (event) => {
    const step = MOVES[event.key]?.[1];
    if (step) {
      event.preventDefault();
      tell(at + step);
    }
  });
  for (const left of ["pointerleave", "blur"]) canvas.addEventListener(left, () => (show.textContent = first(values)));
  return element("div", { class: "vector" }, canvas, show);
}

/** @param {Numeric[]} values */
const first = (values) => `${values.slice(0, 6).map(number).join("  ")}${values.length > 6 ? "  …" : ""}`;

/**
 * One or several curves over 0, 1, 2, …
 *
 * @param {Record<string, number[]>} named
 * @param {{name: string, below: string}} options
 */
export function curves(named, { name, below }) {
  const [w, h, pad] = [560, 220, 32];
  const all = Object.values(named).flat();
  const [low, high] = [Math.min(0, ...all), Math.max(...all)]; // at most a thousand values
  const longest = Math.max(...Object.values(named).map((values) => values.length));
  /** @param {number} i */
  const x = (i) => pad + ((w - 2 * pad) * i) / Math.max(1, longest - 1);
  /** @param {number} value */
  const y = (value) => h - pad - ((h - 2 * pad) * (value - low)) / (high - low || 1);
  const svg = drawing("svg", { viewBox: `0 0 ${w} ${h}`, class: "curves", role: "img", "aria-label": name });
  for (const value of [low, 0, high]) {
    svg.append(drawing("line", { x1: pad, x2: w - pad, y1: y(value), y2: y(value), class: "grid" }));
    svg.append(drawing("text", { x: pad - 4, y: y(value), "text-anchor": "end" }, value.toFixed(1)));
  }
  svg.append(drawing("text", { x: w / 2, y: h - 6, "text-anchor": "middle" }, below));
  Object.entries(named).forEach(([title, values], i) => {
    const points = values.map((value, place) => `${x(place)},${y(value)}`).join(" ");
    svg.append(drawing("polyline", { points, class: `curve curve-${i}` }));
    svg.append(drawing("text", { x: w - pad, y: 14 + 16 * i, "text-anchor": "end", class: `curve-${i}` }, title));
  });
  return svg;
}
