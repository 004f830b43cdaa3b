// One item at a time. Answers stand in `answers[place][column]` and are kept in the browser at once.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const STORE = `xnmt_bench ${data.sheet}`;
const NONE = "-";
let answers = data.items.map(() => ({})), place = 0;

// A page opened from a file may have no storage: then the answers live as long as the page does.
try {
  const kept = JSON.parse(localStorage.getItem(STORE) ?? "null");
  if (kept?.answers?.length === data.items.length) ({ answers, place } = kept);
} catch { /* nothing was kept */ }

function keep() {
  try {
    localStorage.setItem(STORE, JSON.stringify({ answers, place }));
  } catch { byId("progress").textContent += " (not kept: save the CSV)"; }
}

const asked = (question, given) => !question.only_if || question.only_if[1].includes(given[question.only_if[0]]);
const complete = (given) => data.questions.every((question) => !asked(question, given) || given[question.name]);
const openQuestion = () => data.questions.find((question) => asked(question, answers[place]) && !answers[place][question.name]);

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function answer(question, value) {
  const given = answers[place];
  given[question.name] = value;
  // An answer to a question that is not asked any more would stand in the CSV.
  for (const other of data.questions) if (!asked(other, given)) delete given[other.name];
  keep();
  draw();
}

function chosen(question) {
  const given = answers[place][question.name];
  return new Set(given && given !== NONE ? given.split(" ").map(Number) : []);
}

function toggle(question, number) {
  const numbers = chosen(question);
  if (!numbers.delete(number)) numbers.add(number);
  answer(question, [...numbers].sort((a, b) => a - b).join(" "));
  document.querySelector(`[data-word="${number}"]`)?.focus();
}

function sentence(text) {
  return text.words.flatMap((word, n) => [text.marked.includes(n) ? element("mark", { textContent: word }) : word, " "]);
}

function table(heat) {
  const framed = new Set(heat.framed.map(String));
  const rows = new Set(heat.framed.map(([r]) => r)), columns = new Set(heat.framed.map(([, c]) => c));
  const head = element("tr", {}, element("td"), ...heat.columns.map((word, c) =>
    element("th", { textContent: word, className: columns.has(c) ? "marked" : "" })));
  const body = heat.rows.map((word, r) => element("tr", {},
    element("th", { textContent: word, className: rows.has(r) ? "marked" : "" }),
    ...heat.weights[r].map((weight, c) => {
      const cell = element("td", { className: framed.has(`${r},${c}`) ? "framed" : "" });
      if (weight > 0) {
        cell.textContent = weight.toFixed(2);
        cell.style.background = `rgba(var(--heat), ${(0.6 * weight).toFixed(3)})`;
      }
      return cell;
    })));
  return element("div", { className: "scroll" }, element("table", {},
    element("thead", {}, head), element("tbody", {}, ...body)));
}

function drawQuestion(question, item) {
  const given = answers[place][question.name], open = openQuestion() === question;
  const box = element("section", { className: open ? "asked" : "" }, element("h2", { textContent: question.text }));
  const buttons = element("div", { className: question.words_of ? "words" : "choices" });
  if (question.words_of) {
    const numbers = chosen(question);
    item.texts.find((text) => text.heading === question.words_of).words.forEach((word, n) => {
      const button = element("button", { onclick: () => toggle(question, n + 1) },
        element("small", { textContent: n + 1 }), word);
      button.dataset.word = n + 1;
      button.setAttribute("aria-pressed", numbers.has(n + 1));
      buttons.append(button);
    });
    const none = element("button", { onclick: () => answer(question, NONE) }, element("kbd", { textContent: "0" }), "no word");
    none.dataset.answer = NONE;
    none.setAttribute("aria-pressed", given === NONE);
    buttons.append(none);
  } else {
    question.choices.forEach(([value, meaning], n) => {
      const button = element("button", { onclick: () => answer(question, value) },
        element("kbd", { textContent: question.keys[n] }), meaning);
      button.dataset.question = question.name;
      button.dataset.answer = value;
      button.setAttribute("aria-pressed", given === value);
      buttons.append(button);
    });
  }
  box.append(buttons);
  return box;
}

function draw() {
  const item = data.items[place], given = answers[place];
  const texts = element("dl", {}, ...item.texts.flatMap((text) =>
    [element("dt", { textContent: text.heading }), element("dd", { dir: "auto" }, ...sentence(text))]));
  const comment = element("input", { id: "comment", value: given[data.comment] ?? "", autocomplete: "off" });
  comment.oninput = () => { given[data.comment] = comment.value; keep(); };
  byId("item").replaceChildren(texts, ...(item.heatmap ? [table(item.heatmap)] : []),
    ...data.questions.filter((question) => asked(question, given)).map((question) => drawQuestion(question, item)),
    element("label", {}, "comment (key c), if you like", comment));
  const done = answers.filter(complete).length;
  byId("progress").textContent = `item ${place + 1} of ${data.items.length}, ${done} answered`;
  byId("done").style.width = `${100 * done / data.items.length}%`;
  byId("previous").disabled = place === 0;
  byId("next").disabled = place === data.items.length - 1;
}

function go(to) {
  place = Math.max(0, Math.min(data.items.length - 1, to));
  keep();
  draw();
  window.scrollTo(0, 0);
}

function goOpen() {
  const to = answers.findIndex((given) => !complete(given));
  go(to < 0 ? place : to);
}

// As Python's `csv` writes: quoted only where that is needed.
const cell = (text) => /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

function csv() {
  const rows = data.rows.map((row, n) => data.header.map((name) => cell(row[name] ?? answers[n][name] ?? "")).join(","));
  return `\ufeff${[data.header.map(cell).join(","), ...rows].join("\n")}\n`;
}

function save() {
  const link = element("a", { href: URL.createObjectURL(new Blob([csv()], { type: "text/csv" })), download: data.file });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function moveWord(step) {
  const words = [...document.querySelectorAll("[data-word]")];
  const now = words.indexOf(document.activeElement);
  words[(Math.max(now, step > 0 ? -1 : 0) + step + words.length) % words.length]?.focus();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.tagName === "INPUT") {
    if (event.key === "Escape" || event.key === "Enter") { event.target.blur(); event.preventDefault(); }
    return;
  }
  const inWords = data.questions.some((question) => question.words_of);
  const onButton = event.target.tagName === "BUTTON";
  const key = event.key;
  const words = data.questions.find((question) => question.words_of && asked(question, answers[place]));
  const actions = {
    ArrowLeft: () => inWords ? moveWord(-1) : go(place - 1), ArrowRight: () => inWords ? moveWord(1) : go(place + 1),
    PageUp: () => go(place - 1), PageDown: () => go(place + 1), k: () => go(place - 1), j: () => go(place + 1),
    o: goOpen, s: save, c: () => byId("comment").focus(), Backspace: () => { answers[place] = {}; keep(); draw(); },
    "?": () => byId("help").toggleAttribute("open"),
  };
  // Enter goes on, also from a button that was just pressed; space presses it.
  if (key === "Enter" && (!onButton || inWords || !event.target.closest("nav"))) actions.Enter = () => go(place + 1);
  if (words) actions["0"] = () => answer(words, NONE);
  else {
    const question = openQuestion();
    const n = question ? question.keys.indexOf(key) : -1;
    if (key.length === 1 && n >= 0) actions[key] = () => answer(question, question.choices[n][0]);
  }
  if (actions[key]) { actions[key](); event.preventDefault(); }
});

byId("previous").onclick = () => go(place - 1);
byId("next").onclick = () => go(place + 1);
byId("open").onclick = goOpen;
byId("save").onclick = save;
const moves = data.questions.some((question) => question.words_of)
  ? "← → move over the words, space chooses one, 0 is no word; Enter or j: next item, k: previous"
  : "the key beside an answer gives it; Enter, → or j: next item, ← or k: previous";
byId("keys").textContent = `Keys: ${moves}, o: first unanswered, Backspace: clear the item, c: comment, s: save CSV, ?: hide this.`;
if (answers.some((given) => Object.keys(given).length)) byId("help").open = false;
draw();
