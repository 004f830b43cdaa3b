// What the page was given: listings of entries, their numbers at full precision, their weights in a byte each.

async function unpack(base64) {
  const binary = atob(base64.trim());
  const bytes = new Uint8Array(binary.length);
  for (let n = 0; n < bytes.length; n++) bytes[n] = binary.charCodeAt(n);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const size = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const cursor = { floats: 4 + size, bytes: 4 + size };
  for (const description of head.listings) cursor.bytes += 8 * description.columns.length * description.numbers.length;
  return head.listings.map((description) => new Listing(description, head, buffer, cursor));
}

// A piece without the marks that tools leave on it.
function withoutMarks(piece) {
  return piece.replace(/^[▁￭]+|￭+$|@@$/g, "");
}

class Listing {
  constructor(description, head, buffer, cursor) {
    Object.assign(this, description);
    this.pool = head.pool;
    this.levels = head.levels;
    this.nothing = head.nothing;
    this.size = description.numbers.length;
    this.id = `${description.kind}: ${description.name}`;
    this.values = new Map();
    for (const name of description.columns) {
      this.values.set(name, new Float64Array(buffer, cursor.floats, this.size));
      cursor.floats += 8 * this.size;
    }
    this.places = new Map(description.numbers.map((number, place) => [number, place]));
    this.bytes = new Uint8Array(buffer);
    this.starts = [];
    for (const matrix of description.matrices ?? []) {
      this.starts.push(cursor.bytes);
      if (matrix) cursor.bytes += this.bytesOf(matrix);
    }
  }

  text(heading, place) {
    return this.pool[this.texts[heading][place]];
  }

  get given() {
    return Object.keys(this.texts)[0];
  }

  // Pieces, or words; each is the pieces that it is made of. EOS, the last, may be no word.
  tokens(pooled, words) {
    const [pieces, lengths] = this.pool[pooled];
    const inWords = lengths.reduce((sum, length) => sum + length, 0);
    const spans = [];
    let start = 0;
    for (const length of inWords < pieces.length ? [...lengths, pieces.length - inWords] : lengths) {
      if (words) spans.push([start, start + length]);
      else for (let n = start; n < start + length; n++) spans.push([n, n + 1, n > start]);
      start += length;
    }
    return spans.map(([from, to, goesOn]) => {
      const text = pieces.slice(from, to).map(withoutMarks).join("") || "␣";
      return { from, to, text: goesOn ? "·" + text : text, scores: {} };
    });
  }

  // How many pieces, or words, EOS among them.
  count(pooled, words) {
    const [pieces, lengths] = this.pool[pooled];
    if (!words) return pieces.length;
    return lengths.length + (lengths.reduce((sum, length) => sum + length, 0) < pieces.length);
  }

  bytesOf(matrix) {
    const scores = (words) => this.rowScores.length * this.count(matrix.rows, words) + this.columnScores.length * this.count(matrix.columns, words);
    return this.count(matrix.rows) * this.count(matrix.columns) + scores(false) + (this.words ? scores(true) : 0);
  }

  // An entry's matrix in pieces or words: a weight is summed over a column's pieces, and is the mean of a row's.
  matrix(place, words) {
    const description = this.matrices?.[place];
    if (!description) return null;
    const [rows, columns] = [this.tokens(description.rows, words), this.tokens(description.columns, words)];
    const width = this.pool[description.columns][0].length;
    const height = this.pool[description.rows][0].length;
    let at = this.starts[place];
    // A level stands for the middle of its step, and none for no weight.
    const weightOf = (level) => level && Math.min(1, (level + 0.5) / this.levels);
    const weights = rows.map((row) => columns.map((column) => {
      let sum = 0, seen = 0;
      for (let r = row.from; r < row.to; r++) {
        for (let c = column.from; c < column.to; c++) {
          const level = this.bytes[at + r * width + c];
          if (level !== this.nothing) { sum += weightOf(level); seen += 1; }
        }
      }
      return seen ? Math.min(1, sum / (row.to - row.from)) : null;
    }));
    at += height * width;
    if (words) at += this.rowScores.length * height + this.columnScores.length * width;
    for (const [headings, tokens] of [[this.rowScores, rows], [this.columnScores, columns]]) {
      for (const heading of headings) {
        for (const token of tokens) {
          const score = this.bytes[at++];
          if (score !== this.nothing) token.scores[heading] = score;
        }
      }
    }
    return { rows, columns, weights, sources: description.sources ?? columns.length, framed: words ? [] : description.framed ?? [],
             rowScores: this.rowScores, columnScores: this.columnScores, words };
  }
}

// EOS is the last token, where a tool writes it down.
const withoutEos = (tokens) => tokens.at(-1)?.text === "</s>" ? tokens.slice(0, -1) : tokens;

// Places of the entries whose sources are linked to other words in the other listing, of like scores (synonyms).
function synonyms(listing, other) {
  const words = (own, pooled) => withoutEos(own.tokens(pooled, true)).map((token) => token.text.toLowerCase());
  const found = [];
  listing.numbers.forEach((number, place) => {
    const one = listing.matrices[place], two = other.matrices[other.places.get(number)];
    if (!one?.links || !two?.links) return;
    const [sources, others] = [words(listing, one.columns), words(other, two.columns)];
    if (sources.join("\n") !== others.join("\n")) return;
    const [said, saidThere] = [words(listing, one.rows), words(other, two.rows)];
    const synonym = one.links.some(([s, t, score]) => two.links.some(([source, target, there]) =>
      s === source && said[t] !== saidThere[target] && Math.abs(score - there) <= listing.synonyms.alike));
    if (synonym) found.push(place);
  });
  return found;
}
