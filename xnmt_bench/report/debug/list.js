// One way to list entries: which ones, in which order, drawn as far as they are in view, with a chart a score.

const DIFFERENCE = "difference:";
const ROW = 26; // pixels

// The entries that are asked for, as places, in order. What has no number comes last.
function listed(listing, other, asked) {
  let places = asked.list ? [...(readyList(listing, other, asked.list)?.places ?? [])] : [...listing.numbers.keys()];
  const wanted = asked.find.toLowerCase();
  if (wanted) {
    const texts = Object.keys(listing.texts);
    places = places.filter((place) => texts.some((heading) => listing.text(heading, place).toLowerCase().includes(wanted)));
  }
  if (asked.column && (asked.from !== "" || asked.to !== "")) {
    const values = valuesOf(listing, other, asked.column);
    const [from, to] = [asked.from === "" ? -Infinity : Number(asked.from), asked.to === "" ? Infinity : Number(asked.to)];
    places = places.filter((place) => values[place] >= from && values[place] <= to);
  }
  const values = valuesOf(listing, other, asked.sort);
  const sign = asked.down ? -1 : 1;
  // Numbers and then what has none, each in their old order where they are equal.
  return places.sort((a, b) => {
    const [one, two] = [values[a], values[b]];
    if (Number.isNaN(one) || Number.isNaN(two)) return Number.isNaN(one) - Number.isNaN(two) || a - b;
    return sign * (one - two) || a - b;
  });
}

// A column, the numbers of the entries, or the differences of a column from another listing's.
function valuesOf(listing, other, column) {
  if (column === "sentence") return Float64Array.from(listing.numbers);
  if (!column.startsWith(DIFFERENCE)) return listing.values.get(column);
  const name = column.slice(DIFFERENCE.length);
  const [own, there] = [listing.values.get(name), other?.values.get(name)];
  return Float64Array.from(listing.numbers, (number, place) => {
    const opposite = other?.places.get(number);
    return own && there && opposite !== undefined ? own[place] - there[opposite] : NaN;
  });
}

// A listing's ready lists; and those that only a comparison has.
function readyLists(listing, other) {
  if (!other) return listing.lists;
  const known = listing.compared ??= new Map();
  if (!known.has(other)) {
    const made = [{
      name: "other sources", rule: "the two do not have the same source",
      places: [...listing.numbers.keys()].filter((place) => differ(listing, other, place)),
    }];
    if (listing.synonyms && other.synonyms) {
      made.push({ name: "synonyms", rule: listing.synonyms.rule, places: synonyms(listing, other) });
    }
    known.set(other, made);
  }
  return [...listing.lists, ...known.get(other)];
}

const readyList = (listing, other, name) => readyLists(listing, other).find((list) => list.name === name);

function differ(listing, other, place) {
  const opposite = other.places.get(listing.numbers[place]);
  return opposite !== undefined && listing.text(listing.given, place) !== other.text(other.given, opposite);
}

function shown(value) {
  if (Number.isNaN(value)) return "–";
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size >= 10 ? value.toFixed(1) : size >= 0.001 ? value.toFixed(3) : value.toExponential(1);
}

const heading = (column) => column.replace(DIFFERENCE, "difference of ").replace(/_pct$/, " %").replaceAll("_", " ");

// The rows that are in view, in a box as high as all of them.
function drawRows(box, listing, places, values, current, choose) {
  const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 5);
  const last = Math.min(places.length, first + Math.ceil(box.clientHeight / ROW) + 10);
  const inside = box.firstElementChild;
  const texts = Object.keys(listing.texts);
  inside.replaceChildren(...places.slice(first, last).map((place, n) => {
    const line = element("div", { role: "option", id: `entry-${first + n}`, "data-number": listing.numbers[place], "aria-selected": place === current,
                                  "aria-posinset": first + n + 1, "aria-setsize": places.length });
    line.style.top = `${ROW * (first + n)}px`;
    line.append(element("span", {}, String(listing.numbers[place])), element("span", {}, shown(values[place])),
                element("bdi", { dir: "auto" }, listing.text(texts[1] ?? texts[0], place) || "(empty)"));
    line.onclick = () => choose(place);
    return line;
  }));
  const at = places.indexOf(current);
  if (at >= 0) box.setAttribute("aria-activedescendant", `entry-${at}`);
  else box.removeAttribute("aria-activedescendant");
}

function element(tag, attributes = {}, text = "") {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

// Bars in the list's order. Where there are more entries than pixels, a bar is the least of those under it.
function drawChart(canvas, values, places, current, look) {
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  [canvas.width, canvas.height] = [width * scale, height * scale];
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const known = places.filter((place) => !Number.isNaN(values[place]));
  const least = known.reduce((low, place) => Math.min(low, values[place]), 0);
  const greatest = known.reduce((high, place) => Math.max(high, values[place]), 0);
  const bars = barsOf(values, places, width);
  const zero = height * greatest / (greatest - least || 1);
  const at = places.indexOf(current);
  context.fillStyle = look.b;
  context.globalAlpha = 0.45;
  if (at >= 0) context.fillRect(Math.floor(at * width / places.length), 0, Math.max(2, width / places.length), height);
  context.globalAlpha = 1;
  bars.forEach((place, n) => {
    if (place === null) return;
    const size = height * values[place] / (greatest - least || 1);
    context.fillStyle = look.a;
    context.fillRect(n * width / bars.length, zero - Math.max(size, 0), Math.max(1, width / bars.length - 0.5), Math.max(1, Math.abs(size)));
  });
}

function barsOf(values, places, width) {
  const count = Math.min(places.length, Math.floor(width));
  return Array.from({ length: count }, (_, n) => {
    const own = places.slice(Math.floor(n * places.length / count), Math.floor((n + 1) * places.length / count));
    return own.reduce((least, place) => Number.isNaN(values[place]) || (least !== null && values[least] <= values[place]) ? least : place, null);
  });
}

// The list as it stands, tab-separated, its numbers to the last digit; beside them the other listing's, and differences.
function asTsv(listing, other, places) {
  const quoted = (value) => /["\t\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
  // A spreadsheet would run such a text as a formula.
  const harmless = (text) => /^\s*[=+\-@]./s.test(text) ? `'${text}` : text;
  const number = (value) => Number.isNaN(value) ? "" : String(value);
  const headings = Object.keys(listing.texts);
  const beside = other ? other.columns : [];
  const rows = places.map((place) => {
    const opposite = other?.places.get(listing.numbers[place]);
    return [
      String(listing.numbers[place]),
      ...listing.columns.map((name) => number(listing.values.get(name)[place])),
      ...beside.flatMap((name) => {
        const there = opposite === undefined ? NaN : other.values.get(name)[opposite];
        return [number(there), listing.values.has(name) ? number(listing.values.get(name)[place] - there) : ""];
      }),
      ...(other ? Object.keys(other.texts) : []).map((name) => opposite === undefined ? "" : harmless(other.text(name, opposite))),
      ...headings.map((name) => harmless(listing.text(name, place))),
    ];
  });
  const first = ["sentence", ...listing.columns, ...beside.flatMap((name) => [`${name} of ${other.name}`, DIFFERENCE + name]),
                 ...(other ? Object.keys(other.texts) : []).map((name) => `${name} of ${other.name}`), ...headings];
  return [first, ...rows].map((row) => row.map(quoted).join("\t")).join("\n") + "\n";
}
