// The types that the page's modules share; only the type checker reads this file. The answers are built in serve/explorer.py.

/** A number in JSON; null stands for a masked score (NaN) or an infinite one. */
type Numeric = number | null;

/** A tensor, row by row; sent in half precision. */
interface Numbers {
  shape: number[];
  values: Float32Array;
}

/** The inputs, by role. */
type Inputs = Record<string, string>;

/** The inputs, and the output to explain; default: the model's own. */
interface Question {
  inputs: Inputs;
  target?: string;
}

interface TextLayout {
  /** The index of the word that each token belongs to; -1: none. */
  words: number[];
  spelled: string[];
  /** The index of the text that each word belongs to, if there are two. */
  parts: number[];
  text: string;
  /** The character offset at which each token ends in the text; null: inside a character. */
  ends: (number | null)[];
}

/** A sequence of tokens that a model reads or generates. Its layout depends on its medium; this one is for text. */
interface Stream {
  pieces: string[];
  medium: string;
  layout: TextLayout;
}

/** An output with the probability of each token. */
interface Prediction extends Stream {
  probabilities: number[];
  /** For each token, the most probable ones with their probabilities, best first. */
  others: [piece: string, probability: number][][];
  /** The positions of the tokens that the model predicts, or of the chosen one; the log-probability is theirs. */
  outputs: number[];
  log_probability: number;
}

/** The names of the streams of the queries and of the keys. */
interface Pair {
  asks: string;
  answers: string;
}

/** One attention layer of the model. */
interface Look extends Pair {
  path: string;
  heads: number;
  scaled: boolean;
}

/** A part of the model that tokens pass through. */
interface Part {
  path: string;
  stream: string;
  block: string;
  call: number;
}

interface Model {
  name: string;
  /** The medium of each input, by role. */
  accepts: Record<string, string>;
  example: Inputs;
  kind: string;
  writes: boolean;
  continues: boolean;
  parameters: number;
  looks: Look[];
  parts: Part[];
  positions: { kind: string; paths: string[] };
}

interface Alignment extends Pair {
  rows: string[];
  columns: string[];
  weights: number[][];
}

interface Alternative {
  text: string;
  mean_log_probability: number;
}

interface ReadAnswer {
  streams: Record<string, Stream>;
  output_stream: string;
  /** The last part of a walk, from the last hidden states to the prediction; null if nothing is predicted. */
  output_part: Part | null;
  target: Stream;
  spoken: Prediction;
  alignment: Alignment | null;
  alternatives: Alternative[];
}

/** A line of Regard's source. */
interface Code {
  file: string;
  line: number;
  text: string;
}

/** One step of the computation for one token. */
type Step = VectorStep | RowsStep;

interface StepHead {
  name: string;
  equation: string;
  shape: string;
  code: Code | null;
}

/** A number for each feature, each key or each of the most probable outputs. */
interface VectorStep extends StepHead {
  axes: ["features"] | ["keys"] | ["outputs"];
  values: Numeric[];
}

/** A row of features for each key. */
interface RowsStep extends StepHead {
  axes: ["keys", "features"];
  values: Numeric[][];
}

/** What the output layer would predict after one layer. */
interface EarlyAnswer {
  path: string;
  pieces: string[];
  probabilities: number[];
  target: number[];
}

interface HeadsAnswer {
  /** The positions of the output's tokens that are counted. */
  outputs: number[];
  effects: Record<string, number[]>;
  rollouts: [asks: string, answers: string][];
  early: EarlyAnswer[];
}

/** What to switch off in the model. */
interface Change {
  heads: Record<string, number[]>;
  mask: string[];
  scaling: string[];
  positions: string[];
}

interface WhatIfAnswer {
  own: Prediction;
  original: Prediction;
  /** null: the output does not fit the changed inputs. */
  given: Prediction | null;
  changed: Prediction;
}

/** A partial output, and the tokens that its last one attends to. */
interface Growing {
  text: string;
  seen: Stream;
  weights: number[];
}

interface Encodings {
  kind: string;
  length: number;
}

/** The arguments and the answer of each verb. */
interface Verbs {
  model: { args: {}; answer: Model };
  read: { args: Question; answer: ReadAnswer };
  attention: { args: Question & { path: string }; answer: Numbers };
  walk: { args: Question & { path: string; token: number; head: number }; answer: { steps: Step[]; outputs: string[] } };
  "what-if": { args: Question & { token?: number; change: Change; other?: Inputs }; answer: WhatIfAnswer };
  heads: { args: Question & { token?: number }; answer: HeadsAnswer };
  rollout: { args: Question & Pair; answer: Numbers };
  positions: { args: Encodings; answer: Numbers };
  likeness: { args: Encodings; answer: { similarity: number[] } };
  code: { args: { file: string }; answer: { lines: string[] } };
}

/** The answers inside a saved page, by request. */
interface Saved {
  address: string;
  answers: Record<string, { json: unknown; half?: undefined } | { shape: number[]; half: string }>;
}

/** The state in the URL: the view and its settings. */
type State = { view: string; [name: string]: string | undefined };

/** Settings to change; null removes one. */
type Changes = Record<string, string | number | null>;

type Go = (given: Changes | ((state: State) => Changes)) => void;

/** The data from which a view is drawn. */
interface Context {
  model: Model;
  state: State;
  go: Go;
  question: Question;
  /** Is this view still the current one? */
  isCurrent: () => boolean;
}

/** Several tokens merged into one unit: a word of a text. */
interface Unit {
  label: string;
  places: number[];
}

/** A matrix of weights with the names of its rows and columns. */
interface Weights {
  rows: string[];
  columns: string[];
  at: At;
}

type At = (row: number, column: number) => number;

/** A listener; the event's type depends on its name. */
type Listener = (event: any) => void;

/** Attributes of an element; those whose names start with "on" are listeners. */
interface Attributes {
  [name: string]: string | number | boolean | null | undefined | Listener;
  [listener: `on${string}`]: Listener | null | undefined;
  onkeydown?: (event: KeyboardEvent) => void;
  onsubmit?: (event: SubmitEvent) => void;
}

type Child = Node | string;

/** A value of a choice, and its name. */
type Option = [value: string | number, name: string | number];

interface OptionGroup {
  group: string;
  options: Option[];
}

/** What a medium's module exports; see media/text.js. */
interface Medium {
  title: string | null;
  units: string | null;
  label: (piece: string) => string;
  merged: (stream: Stream) => Unit[];
  unitClass: (stream: Stream, i: number) => string;
  laidOut: (stream: Stream, elements: HTMLElement[], attributes?: Attributes) => HTMLElement;
  line: (stream: Stream) => string;
  continued: (stream: Stream, i: number, piece: string) => string | null;
  field: (name: string) => HTMLTextAreaElement;
  otherField: (name: string, value: string) => HTMLInputElement;
}
