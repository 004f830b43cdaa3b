// One way to draw weights: as a matrix or as lines, as SVG that stands by itself.

const FONT = "13px system-ui, sans-serif";
const CELL = 21, SCORE = 30, GAP = 14;
const measure = (() => {
  const context = document.createElement("canvas").getContext("2d");
  context.font = FONT;
  return (text) => context.measureText(text).width;
})();

function shape(tag, attributes = {}, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = String(text).replace(ILLEGAL, "\uFFFD");
  return made;
}

const percent = (weight) => `${Math.round(100 * weight)} %`;
// What no XML may hold, whatever a translation holds.
const ILLEGAL = /[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu;

function shortened(text, widest = 150) {
  let shown = [...text.slice(0, 80)];
  while (shown.length > 1 && measure(shown.join("")) > widest) shown = [...shown.slice(0, -2), "…"];
  return shown.join("");
}

// parts: {title, matrix, colour, dashed}; look: {ink, quiet, line, page}; at: {cut, step, view}, the step of the first.
function figure(parts, look, at) {
  const root = shape("svg", { xmlns: "http://www.w3.org/2000/svg", "font-family": "system-ui, sans-serif", "font-size": 13, role: "img" });
  const size = { width: 0, height: 0 };
  const put = (group, width, height) => {
    group.setAttribute("transform", `translate(0 ${size.height})`);
    root.append(group);
    size.width = Math.max(size.width, width);
    size.height += height + 16;
  };
  if (at.view === "lines" && parts.length === 2 && sameColumns(parts.map((part) => part.matrix))) {
    put(...lines(parts, look, at));
  } else {
    const draw = at.view === "lines" ? (part, own) => lines([part], look, own) : (part, own) => matrix(part, look, own);
    parts.forEach((part, n) => put(...draw(part, n ? { ...at, step: null } : at)));
  }
  const [width, height] = [Math.ceil(size.width), Math.ceil(size.height)];
  for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) root.setAttribute(name, value);
  root.prepend(shape("rect", { width, height, fill: look.page }));
  root.prepend(shape("title", {}, parts.map((part) => part.title).join(" and ")));
  return root;
}

function sameColumns([one, two]) {
  const texts = ({ columns }) => withoutEos(columns).map((token) => token.text).join("\n");
  return texts(one) === texts(two);
}

function described(token) {
  const scores = Object.entries(token.scores).map(([heading, score]) => `${heading} ${score} %`);
  return [token.text, ...scores].join(", ");
}

function matrix(part, look, at) {
  const { rows, columns, weights, sources, framed, rowScores, columnScores } = part.matrix;
  const group = shape("g");
  // What is framed is bold, and a little wider.
  const left = 14 + Math.max(...rows.map((row) => 1.12 * measure(shortened(row.text))), measure(columnScores[0] ?? ""));
  const top = 30 + Math.max(0, ...columns.map((column) => 0.87 * measure(shortened(column.text))));
  const x = (c) => left + CELL * c + (c >= sources ? GAP : 0);
  const y = (r) => top + CELL * r;
  const right = x(columns.length) + 4;
  const slanted = Math.max(0, ...columns.map((column, c) => x(c) + 22 + 0.55 * measure(shortened(column.text))));
  const framedRows = new Set(framed.map(([r]) => r)), framedColumns = new Set(framed.map(([, c]) => c));
  group.append(shape("text", { x: 2, y: 13, fill: part.colour, "font-weight": 600 }, part.title));
  columns.forEach((column, c) => {
    const label = shape("text", { transform: `translate(${x(c) + 14} ${top - 6}) rotate(-60)`, fill: look.ink, "data-column": c }, shortened(column.text));
    if (framedColumns.has(c)) label.setAttribute("font-weight", 700);
    label.append(shape("title", {}, described(column)));
    group.append(label);
  });
  rows.forEach((row, r) => {
    const label = shape("text", { x: left - 6, y: y(r) + 15, "text-anchor": "end", fill: look.ink, "data-row": r }, shortened(row.text));
    if (framedRows.has(r)) label.setAttribute("font-weight", 700);
    label.append(shape("title", {}, described(row)));
    group.append(label);
    columns.forEach((column, c) => {
      const weight = weights[r][c];
      if (weight === null) group.append(shape("rect", { x: x(c), y: y(r), width: CELL, height: CELL, fill: look.line, opacity: 0.45 }));
      if (!weight || weight < at.cut) return;
      const cell = shape("rect", { x: x(c) + 0.5, y: y(r) + 0.5, width: CELL - 1, height: CELL - 1, fill: part.colour, "fill-opacity": (0.08 + 0.92 * weight).toFixed(3), "data-weight": weight });
      cell.append(shape("title", {}, `${row.text} ← ${column.text}: ${percent(weight)}`));
      group.append(cell);
    });
    rowScores.forEach((heading, n) => {
      if (heading in row.scores) group.append(score(row.scores[heading], right + SCORE * n + SCORE / 2, y(r) + 15, look));
    });
  });
  rowScores.forEach((heading, n) => group.append(shape("text", { x: right + SCORE * n + SCORE / 2, y: top - 6, "text-anchor": "middle", "font-size": 9, fill: look.quiet }, heading)));
  const bottom = y(rows.length);
  columnScores.forEach((heading, n) => {
    group.append(shape("text", { x: left - 6, y: bottom + 14 * (n + 1), "text-anchor": "end", "font-size": 9, fill: look.quiet }, heading));
    columns.forEach((column, c) => {
      if (heading in column.scores) group.append(score(column.scores[heading], x(c) + CELL / 2, bottom + 14 * (n + 1), look));
    });
  });
  for (const [from, to] of [[0, Math.min(sources, columns.length)], [sources, columns.length]]) {
    if (to > from) group.append(shape("rect", { x: x(from), y: top, width: CELL * (to - from), height: bottom - top, fill: "none", stroke: look.line }));
  }
  for (const [r, c] of framed) group.append(shape("rect", { x: x(c) + 1.5, y: y(r) + 1.5, width: CELL - 3, height: CELL - 3, fill: "none", stroke: look.ink, "stroke-width": 3 }));
  if (at.step !== null && at.step < rows.length) group.append(shape("rect", { x: 1, y: y(at.step), width: right + SCORE * rowScores.length - 2, height: CELL, fill: "none", stroke: look.ink, "stroke-width": 1.5 }));
  const width = Math.max(right + SCORE * rowScores.length + 4, slanted, 1.15 * measure(part.title) + 8);
  return [group, width, bottom + 14 * columnScores.length + 6];
}

function score(value, x, y, look) {
  return shape("text", { x, y, "text-anchor": "middle", "font-size": 10, fill: look.quiet }, value);
}

// Tokens in rows, one under the other: a translation, the source, and another translation of it.
function lines(parts, look, at) {
  const group = shape("g");
  const laid = (tokens) => {
    let x = 8;
    return tokens.map((token) => {
      const width = measure(shortened(token.text));
      const place = { token, middle: x + width / 2, end: x + width };
      x += width + GAP;
      return place;
    });
  };
  const longest = parts.reduce((one, two) => two.matrix.columns.length > one.matrix.columns.length ? two : one);
  const columns = laid(longest.matrix.columns);
  const translations = parts.map((part) => laid(part.matrix.rows));
  const ends = [columns, ...translations].map((row) => row.at(-1)?.end ?? 0);
  const width = Math.max(...ends, ...parts.map((part) => 1.15 * measure(part.title) + 8)) + 8;
  const shift = (row, end) => row.forEach((place) => { place.middle += (width - 8 - end) / 2; });
  [columns, ...translations].forEach((row, n) => shift(row, ends[n]));
  const y = { first: 40, source: 190, second: 340 };
  parts.forEach((part, n) => {
    const from = n === 0 ? y.first + 16 : y.second - 15;
    const to = n === 0 ? y.source - 14 : y.source + 18;
    const links = shape("g", { stroke: part.colour, fill: "none" });
    if (part.dashed) links.setAttribute("stroke-dasharray", "6 3");
    part.matrix.weights.forEach((row, r) => row.forEach((weight, c) => {
      if (!weight || weight < at.cut) return;
      const faded = n === 0 && at.step !== null && r !== at.step ? 0.15 : 1;
      const [x1, x2] = [translations[n][r].middle, columns[c].middle];
      const line = shape("path", { d: `M${x1} ${from}C${x1} ${(from + to) / 2} ${x2} ${(from + to) / 2} ${x2} ${to}`, "stroke-width": (0.5 + 4 * weight).toFixed(2), "stroke-opacity": (weight * faded).toFixed(3), "data-weight": weight });
      line.append(shape("title", {}, `${part.matrix.rows[r].text} ← ${part.matrix.columns[c].text}: ${percent(weight)}`));
      links.append(line);
    }));
    group.append(links);
    group.append(shape("text", { x: 2, y: n === 0 ? 13 : y.second + 36, fill: part.colour, "font-weight": 600 }, part.title));
    row(group, translations[n], n === 0 ? y.first : y.second, n === 0, part.matrix.rowScores[0], look, n === 0 ? at.step : null, n === 0 ? "row" : "other");
  });
  row(group, columns, y.source, false, parts.length > 1 ? null : parts[0].matrix.columnScores[0], look, null, "column");
  return [group, width, parts.length > 1 ? y.second + 44 : y.source + 24];
}

// A row of tokens with a bar as long as the first of their scores.
function row(group, places, y, above, heading, look, step, kind) {
  places.forEach(({ token, middle }, n) => {
    const width = measure(shortened(token.text));
    const label = shape("text", { x: middle, y: y + 4, "text-anchor": "middle", fill: look.ink, [`data-${kind}`]: n }, shortened(token.text));
    if (n === step) label.setAttribute("font-weight", 700);
    label.append(shape("title", {}, described(token)));
    group.append(label);
    if (!(heading in token.scores)) return;
    const [start, at] = [middle - width / 2, above ? y - 15 : y + 10];
    group.append(shape("rect", { x: start, y: at, width, height: 3, fill: look.line }));
    group.append(shape("rect", { x: start, y: at, width: width * token.scores[heading] / 100, height: 3, fill: look.quiet }));
  });
}
