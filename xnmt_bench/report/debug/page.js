// The page: what is chosen stands in the address, and every part is drawn from it.

const START = { listing: "", other: "", sentence: "", list: "", find: "", column: "", from: "", to: "", sort: "sentence",
                down: "", view: "matrix", unit: "", cut: "0", step: "" };
const byId = (id) => document.getElementById(id);
const state = { ...START };
let listings = [], places = [], order = "", drawnParts = [], waiting = null;

const listing = () => listings.find((one) => one.id === state.listing) ?? listings[0];
const other = () => listings.find((one) => one.id === state.other && one.kind === listing().kind && one !== listing()) ?? null;
const comparable = () => listings.filter((one) => one.kind === listing().kind && one !== listing());
const place = () => listing().places.get(Number(state.sentence || NaN)) ?? places[0];
const inWords = () => listing().words && (state.unit || listing().unit) === "words";
const step = () => state.step === "" ? null : Number(state.step);

function look() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "quiet", "line", "page", "a", "b"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const PAPER = { ink: "#111", quiet: "#555", line: "#ccc", page: "#fff", a: "#0072B2", b: "#BF4F00" };

function change(changes) {
  Object.assign(state, Object.fromEntries(Object.entries(changes).map(([name, value]) => [name, String(value)])));
  draw();
  // Browsers allow only so many changes of the address in a while.
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    const chosen = Object.entries(state).filter(([name, value]) => value !== START[name]);
    history.replaceState(null, "", "#" + new URLSearchParams(chosen));
  }, 150);
}

function read() {
  Object.assign(state, START, Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  draw();
}

// Drops choices that the shown listings do not have: another listing may lack a score, a list, an explainer.
function settle() {
  const [own, beside] = [listing(), other()];
  if (!beside) state.other = "";
  if (!columns(own, beside).some(([name]) => name === state.sort)) state.sort = "sentence";
  if (!columns(own, beside).some(([name]) => name === state.column)) Object.assign(state, { column: "", from: "", to: "" });
  if (!readyList(own, beside, state.list)) state.list = "";
  state.cut = String(clamp(Math.round(50 * state.cut || 0), 50) / 50);
}

// What can be sorted by: names and headings.
function columns(own, beside) {
  const numbers = [["sentence", "number"], ...own.columns.map((name) => [name, heading(name)])];
  const shared = beside ? own.columns.filter((name) => beside.values.has(name)) : [];
  return [...numbers, ...shared.map((name) => [DIFFERENCE + name, heading(DIFFERENCE + name)])];
}

function draw() {
  settle();
  const [own, beside] = [listing(), other()];
  const asked = { ...state, down: state.down === "true" };
  const key = JSON.stringify([own.id, beside?.id, state.list, state.find, state.column, state.from, state.to, state.sort, state.down]);
  if (key !== order) {
    places = listed(own, beside, asked);
    order = key;
    drawControls(own, beside);
    byId("rows").firstElementChild.style.height = `${ROW * places.length}px`;
  }
  const current = place();
  keepInView(current);
  drawRows(byId("rows"), own, places, valuesOf(own, beside, shownColumn()), current, choose);
  drawCharts(own, current);
  drawEntry(own, beside, current);
}

function options(select, choices, chosen) {
  select.replaceChildren(...choices.map(([value, text]) => new Option(text, value, false, value === chosen)));
  select.value = chosen;
}

function drawControls(own, beside) {
  const kinds = [...new Set(listings.map((one) => one.kind))];
  byId("listing").replaceChildren(...kinds.map((kind) => {
    const group = element("optgroup", { label: kind });
    group.append(...listings.filter((one) => one.kind === kind).map((one) => new Option(one.name, one.id, false, one === own)));
    return group;
  }));
  options(byId("other"), [["", "nothing"], ...comparable().map((one) => [one.id, one.name])], beside?.id ?? "");
  byId("other").disabled = !comparable().length;
  const ready = readyLists(own, beside);
  options(byId("list"), [["", `all (${own.size})`], ...ready.map((list) => [list.name, `${list.name} (${list.places.length})`])], state.list);
  options(byId("sort"), columns(own, beside), state.sort);
  options(byId("column"), [["", "no filter"], ...columns(own, beside).slice(1)], state.column);
  byId("down").setAttribute("aria-pressed", state.down === "true");
  for (const name of ["find", "from", "to"]) if (document.activeElement !== byId(name)) byId(name).value = state[name];
  for (const name of ["from", "to"]) byId(name).disabled = !state.column;
  const list = ready.find((one) => one.name === state.list);
  byId("said").textContent = counted(own) + (list ? `. ${list.name}: ${list.rule}` : "");
  byId("none").hidden = places.length > 0;
  byId("title").textContent = document.title = beside ? `${own.name}, beside ${beside.name}` : own.name;
  byId("sorted").textContent = heading(shownColumn());
  byId("note").textContent = own.note;
}

// How many entries are listed; and of how many sentences, where the page was given a part of them.
function counted(own) {
  const part = own.total > own.size ? `${own.size} of ${own.total} measured sentences` : "";
  if (places.length === own.size && part) return part;
  return `${places.length} of ${own.size}` + (part && `; here are ${part}`);
}

// The column beside the list's texts.
const shownColumn = () => state.sort === "sentence" ? listing().charts[0] ?? listing().columns[0] ?? "sentence" : state.sort;

function keepInView(current) {
  const [box, at] = [byId("rows"), places.indexOf(current)];
  if (at < 0) return;
  if (ROW * at < box.scrollTop) box.scrollTop = ROW * at;
  if (ROW * (at + 1) > box.scrollTop + box.clientHeight) box.scrollTop = ROW * (at + 1) - box.clientHeight;
}

function drawCharts(own, current) {
  const box = byId("charts");
  if (box.dataset.listing !== own.id) {
    box.dataset.listing = own.id;
    box.replaceChildren(...own.charts.map((name) => {
      const chart = element("figure", { "data-column": name });
      const sort = element("button", { title: "sort by it" }, heading(name));
      sort.onclick = () => change({ sort: name, down: state.sort === name && state.down !== "true" });
      const canvas = element("canvas", { role: "img", "aria-label": `${heading(name)} in the list's order` });
      canvas.onclick = (event) => {
        const bars = barsOf(own.values.get(name), places, canvas.clientWidth);
        const chosen = bars[Math.min(bars.length - 1, Math.floor(event.offsetX / canvas.clientWidth * bars.length))];
        if (chosen !== null && chosen !== undefined) choose(chosen);
      };
      chart.append(sort, canvas);
      return chart;
    }));
  }
  for (const chart of box.children) drawChart(chart.querySelector("canvas"), own.values.get(chart.dataset.column), places, current, look());
}

const choose = (chosen) => change({ sentence: listing().numbers[chosen], step: "" });

function go(by) {
  const at = places.indexOf(place());
  const next = places[Math.max(0, Math.min(places.length - 1, at + by))];
  if (next !== undefined) choose(next);
}

// The listings that are shown, with the place of the entry in each.
function parts(own, beside, current) {
  const opposite = beside?.places.get(own.numbers[current]);
  return [[own, current], ...(opposite === undefined ? [] : [[beside, opposite]])];
}

function drawEntry(own, beside, current) {
  const entry = byId("entry");
  entry.hidden = current === undefined;
  if (entry.hidden) return;
  const number = own.numbers[current];
  byId("which").textContent = `Number ${number}`;
  const at = places.indexOf(current);
  byId("where").textContent = at < 0 ? "not in this list" : `${at + 1} of ${places.length}`;
  const both = parts(own, beside, current);
  byId("texts").replaceChildren(...texts(both));
  byId("differs").hidden = !(beside && differ(own, beside, current));
  byId("absent").hidden = !beside || both.length === 2;
  byId("choices").replaceChildren(...choices(both));
  byId("scores").replaceChildren(scoreTable(own, both));
  drawFigure(both);
}

function texts(both) {
  const lines = [];
  const said = new Set();
  both.forEach(([one, at], n) => {
    for (const name of Object.keys(one.texts)) {
      const text = one.text(name, at);
      const shared = both.length === 1 || name !== "translation";
      if (shared && said.has(`${name}\n${text}`)) continue;
      said.add(`${name}\n${text}`);
      const who = both.length > 1 && (!shared || n) ? `${name}, ${one.name}` : name;
      const line = element("bdi", { dir: "auto" });
      line.append(...underlined(text, one.underlined.length ? one.pool[one.underlined[at]] : ""));
      const definition = element("dd", { "data-text": name });
      definition.append(line);
      lines.push(element("dt", { class: both.length > 1 && !shared ? "ab"[n] : "" }, who), definition);
    }
  });
  return lines;
}

function underlined(text, part) {
  const start = part ? text.indexOf(part) : -1;
  if (start < 0) return [text || "(empty)"];
  return [text.slice(0, start), element("u", {}, part), text.slice(start + part.length)];
}

function choices(both) {
  const [one, at] = both[0];
  if (!one.choices?.[at]) return [];
  const table = element("table");
  const head = element("tr");
  head.append(element("th", {}, "variant"), ...both.map(([listing]) => element("th", {}, listing.name)));
  table.append(head);
  const best = both.map(([listing, place]) => Math.max(...listing.choices[place].map(([, score]) => score ?? -Infinity)));
  one.choices[at].forEach(([pooled], n) => {
    const line = element("tr");
    const text = element("td");
    text.append(element("bdi", { dir: "auto" }, one.pool[pooled]), n ? "" : " (true)");
    line.append(text, ...both.map(([listing, place], side) => {
      const score = listing.choices[place][n]?.[1] ?? NaN;
      return element("td", {}, shown(score) + (score === best[side] ? " ◀" : ""));
    }));
    table.append(line);
  });
  return [table];
}

function scoreTable(own, both) {
  const table = element("table");
  if (both.length === 2) {
    const head = element("tr");
    head.append(element("th"), element("th", { class: "a" }, own.name), element("th", { class: "b" }, both[1][0].name), element("th", {}, "difference"));
    table.append(head);
  }
  for (const name of new Set(both.flatMap(([listing]) => listing.columns))) {
    const values = both.map(([listing, place]) => listing.values.get(name)?.[place] ?? NaN);
    if (values.every(Number.isNaN)) continue;
    if (both.length === 2) values.push(values[0] - values[1]);
    const line = element("tr", { "data-column": name, "aria-current": name === state.sort });
    line.append(element("th", {}, heading(name)), ...values.map((value) => element("td", { title: value, "data-value": value }, shown(value))));
    table.append(line);
  }
  return table;
}

function drawn(both, look) {
  const colours = ["a", "b"];
  const shownParts = both.flatMap(([one, at], n) => {
    const matrix = one.matrix(at, inWords());
    return matrix?.rows.length && matrix.columns.length ? [{ title: one.name, matrix, colour: look[colours[n]], dashed: n === 1 }] : [];
  });
  // Other pieces of the same words meet as words.
  if (state.view !== "lines" || shownParts.length < 2 || sameColumns(shownParts.map((part) => part.matrix))) return shownParts;
  const words = both.map(([one, at]) => one.matrix(at, one.words));
  return sameColumns(words) ? shownParts.map((part, n) => ({ ...part, matrix: words[n] })) : shownParts;
}

function drawFigure(both, colours = look()) {
  const seen = drawnParts = drawn(both, colours);
  byId("figure").hidden = !seen.length;
  byId("tools").hidden = !seen.length;
  byId("unweighed").hidden = seen.length > 0 || !listing().matrices;
  byId("unseen").hidden = state.view === "lines" || !seen.some((part) => part.matrix.weights.flat().includes(null));
  if (!seen.length) return;
  byId("unit").hidden = !listing().words;
  for (const [name, value] of [["view", state.view], ["unit", seen[0].matrix.words ? "words" : "pieces"]]) {
    for (const input of document.getElementsByName(name)) input.checked = input.value === value;
  }
  byId("cut").value = Math.round(100 * state.cut);
  byId("cutSaid").textContent = `${byId("cut").value} %`;
  const made = figure(seen, colours, { view: state.view, cut: Number(state.cut), step: step() });
  byId("drawn").replaceChildren(made);
  for (const label of made.querySelectorAll("[data-row]")) label.onclick = () => change({ step: label.dataset.row });
  byId("decision").replaceChildren(...decision(seen[0]));
  if (step() !== null) made.querySelector(`[data-row="${step()}"]`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

// In words: what mattered most for the token that is chosen.
function decision({ title, matrix }) {
  const row = matrix.rows[step() ?? -1];
  if (!row) return [];
  const weights = matrix.weights[step()];
  const best = weights.map((weight, c) => [weight ?? 0, c]).filter(([weight]) => weight > 0).sort((one, two) => two[0] - one[0]).slice(0, 6);
  const words = best.map(([weight, c]) => `${matrix.columns[c].text} ${percent(weight)}`).join(", ") || "nothing";
  return [element("p", {}, `${title}: ${described(row)} ← ${words}`)];
}

function save(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const fileName = (ending) => `${listing().name}_${listing().numbers[place()]}`.replace(/[^\p{L}\p{N}]+/gu, "_") + `.${ending}`;

// On white paper, whatever the page looks like.
function svgText() {
  const seen = drawn(parts(listing(), other(), place()), PAPER);
  const made = figure(seen, PAPER, { view: state.view, cut: Number(state.cut), step: step() });
  return { made, text: new XMLSerializer().serializeToString(made) };
}

const redraw = (colours) => place() !== undefined && drawFigure(parts(listing(), other(), place()), colours);
const LARGEST = 8000; // pixels that every browser can draw

function saveSvg() {
  save(fileName("svg"), new Blob([svgText().text], { type: "image/svg+xml" }));
}

function savePng() {
  const { made, text } = svgText();
  const image = new Image();
  image.onload = () => {
    const canvas = element("canvas");
    const size = [Number(made.getAttribute("width")), Number(made.getAttribute("height"))];
    const scale = Math.min(2, LARGEST / Math.max(...size));
    [canvas.width, canvas.height] = size.map((length) => Math.round(scale * length));
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => blob ? save(fileName("png"), blob) : alert("This browser cannot draw so large a PNG; save the SVG."));
  };
  image.onerror = () => alert("The figure cannot be drawn as a PNG; save the SVG.");
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
}

const saveTsv = () => save("sentences.tsv", new Blob([asTsv(listing(), other(), places)], { type: "text/tab-separated-values" }));

const clamp = (value, greatest) => Math.max(0, Math.min(greatest, value));

function stepBy(by) {
  const last = (drawnParts[0]?.matrix.rows.length ?? 0) - 1;
  if (last >= 0) change({ step: step() === null ? (by > 0 ? 0 : last) : clamp(step() + by, last) });
}

const nextOf = (choices, chosen) => choices[(choices.indexOf(chosen) + 1) % choices.length];

// Who was beside the chosen one changes places with it.
function show(id) {
  change({ listing: id, other: state.other === id ? listing().id : state.other, step: "" });
}

const KEYS = {
  ArrowDown: ["next sentence", () => go(1)],
  ArrowUp: ["sentence before", () => go(-1)],
  PageDown: ["ten on", () => go(10)],
  PageUp: ["ten back", () => go(-10)],
  Home: ["first", () => go(-Infinity)],
  End: ["last", () => go(Infinity)],
  ArrowRight: ["next token of the translation", () => stepBy(1)],
  ArrowLeft: ["token before", () => stepBy(-1)],
  m: ["matrix or lines", () => change({ view: state.view === "lines" ? "matrix" : "lines" })],
  w: ["pieces or words", () => listing().words && change({ unit: inWords() ? "pieces" : "words", step: "" })],
  "+": ["higher cut-off", () => change({ cut: clamp(Math.round(100 * state.cut) + 2, 100) / 100 })],
  "-": ["lower cut-off", () => change({ cut: clamp(Math.round(100 * state.cut) - 2, 100) / 100 })],
  e: ["next system or explainer", () => show(nextOf(listings.map((one) => one.id), listing().id))],
  c: ["compare with the next", () => change({ other: nextOf(["", ...comparable().map((one) => one.id)], state.other), step: "" })],
  r: ["reverse the order", () => change({ down: state.down !== "true" })],
  s: ["choose what to sort by", () => byId("sort").focus()],
  l: ["choose a list", () => byId("list").focus()],
  "/": ["search", () => byId("find").focus()],
  Escape: ["leave a field", () => document.activeElement.blur()],
  "?": ["these keys", () => byId("help").showModal()],
};

function listen() {
  const into = (name) => (event) => change({ [name]: event.target.value });
  byId("listing").onchange = (event) => show(event.target.value);
  for (const name of ["other", "list", "sort", "column"]) byId(name).onchange = into(name);
  for (const name of ["find", "from", "to"]) byId(name).oninput = into(name);
  byId("down").onclick = () => KEYS.r[1]();
  for (const name of ["view", "unit"]) for (const input of document.getElementsByName(name)) input.onchange = (event) => change({ [name]: event.target.value, step: "" });
  byId("cut").oninput = (event) => change({ cut: event.target.value / 100 });
  byId("previous").onclick = () => go(-1);
  byId("next").onclick = () => go(1);
  [byId("svg").onclick, byId("png").onclick, byId("tsv").onclick] = [saveSvg, savePng, saveTsv];
  byId("clear").onclick = () => change({ list: "", find: "", column: "", from: "", to: "" });
  byId("keys").onclick = () => KEYS["?"][1]();
  byId("rows").onscroll = () => drawRows(byId("rows"), listing(), places, valuesOf(listing(), other(), shownColumn()), place(), choose);
  byId("rows").append(element("div"));
  window.onhashchange = read;
  window.onbeforeprint = () => redraw(PAPER);
  window.onafterprint = () => redraw();
  window.onresize = draw;
  matchMedia("(prefers-color-scheme: dark)").onchange = draw;
  byId("keyList").append(...Object.entries(KEYS).flatMap(([key, [what]]) => [element("dt", {}, key), element("dd", {}, what)]));
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select") && event.key !== "Escape";
    const scrolling = event.target.id === "figure" && event.key.startsWith("Arrow");
    if (typing || scrolling || event.ctrlKey || event.metaKey || event.altKey || byId("help").open || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key][1]();
  });
}

async function start() {
  if (typeof DecompressionStream === "undefined") {
    byId("state").textContent = "This browser cannot unpack the page's data: it has no DecompressionStream. Firefox 113, Chrome 85, Safari 16.4 and later have it.";
    return;
  }
  listings = await unpack(byId("data").textContent);
  byId("state").remove();
  byId("page").hidden = false;
  listen();
  read();
}

start().catch((error) => { byId("state")?.replaceChildren(`The page's data cannot be read: ${error.message}`); throw error; });
