// Charts, sorting, filtering and the story of a row. Texts go into the page as text, never as markup.
(() => {
  "use strict";
  const PAGE_ROWS = innerWidth < 640 ? 20 : 50;
  const byId = (id) => document.getElementById(id);
  const make = (tag, text = "", attributes = {}) => {
    const element = document.createElement(tag);
    element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const data = async (id) => {
    const element = byId(id);
    if (element.type === "application/json") return JSON.parse(element.textContent);
    const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(plain).text());
  };

  // -- charts ----------------------------------------------------------------------------------
  const hint = byId("hint");
  const tooltip = (_, event, item, value) => {
    if (!value) { hint.hidden = true; return; }
    hint.replaceChildren(...Object.entries(value).filter(([, text]) => text !== "").map(([key, text]) => {
      const line = make("div");
      line.append(make("small", `${key}: `), make("span", String(text)));
      return line;
    }));
    hint.hidden = false;
    const left = Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8);
    const below = event.clientY + 14;
    const top = below + hint.offsetHeight > innerHeight ? event.clientY - hint.offsetHeight - 8 : below;
    hint.style.left = `${Math.max(left, 4)}px`;
    hint.style.top = `${Math.max(top, 4)}px`;
  };
  const config = (width) => {
    const style = getComputedStyle(document.documentElement);
    const text = style.getPropertyValue("--text").trim();
    const line = style.getPropertyValue("--line").trim();
    const font = "system-ui, sans-serif";
    return {
      background: "transparent", font, view: { stroke: null },
      axis: { labelColor: text, titleColor: text, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 12, titleFontWeight: 500 },
      axisY: { labelLimit: Math.max(90, Math.round(width * (width < 600 ? 0.5 : 0.42))) },
      legend: { labelColor: text, titleColor: text, labelFontSize: 12, columns: width < 600 ? 1 : 7 },
      text: { color: text, fontSize: 12 },
    };
  };
  const views = new Map();
  const draw = async (box, spec = JSON.parse(byId(box.dataset.spec).textContent)) => {
    views.get(box)?.finalize();
    // Vega writes its own name over the label, unless it is told the chart's.
    box.dataset.label ??= box.getAttribute("aria-label") ?? "The rows of this table over time";
    const compiled = vegaLite.compile(spec, { config: config(box.clientWidth) }).spec;
    const view = new vega.View(vega.parse(compiled, null, { ast: true }), {
      expr: vegaInterpreter, renderer: "svg", container: box, hover: true, tooltip, logLevel: vega.Error,
    });
    view.description(box.dataset.label);
    views.set(box, view);
    await view.runAsync();
    // What scrolls can be scrolled with the keyboard.
    if (box.scrollHeight > box.clientHeight || box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  };
  // The rows of a table as bars: the same specification as that of the page's own charts, with other data.
  const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  const drawRows = (box, rows) => {
    const spec = JSON.parse(byId("bars").textContent);
    const end = Math.max(0, ...rows.map((row) => row.to)) || 1;
    spec.data.values = rows.map((row) => ({ ...row, kind: "evicted", short: row.to - row.from < 0.004 * end }));
    spec.height = 18 * Math.max(1, rows.length);
    const step = STEPS.find((one) => end / one <= 9) ?? 86400 * Math.ceil(end / 9 / 86400);
    spec.encoding.x.axis.values = Array.from({ length: Math.floor(end / step) + 1 }, (_, at) => Math.round(at * step * 10) / 10);
    spec.encoding.x.scale.domainMax = end;
    spec.encoding.color = { value: "#5b7fb5" };
    return draw(box, spec);
  };
  const drawAll = () => Promise.all([...document.querySelectorAll(".chart[data-spec]")].map((box) =>
    draw(box).catch((error) => { box.textContent = `This chart could not be drawn: ${error.message}`; })));
  let width = innerWidth;
  let due = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(due);
    due = setTimeout(drawAll, 200);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  matchMedia("print").addEventListener("change", drawAll);

  // -- tables ----------------------------------------------------------------------------------
  // The first duration of a cell: "+5m30s .. +6m", "up to 3s", "from +20s or later, ...".
  const DURATION = /^(?:from |until |up to |at least )?([+-]?)(?=\d)(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?(?![\w.])/;
  const natural = new Intl.Collator("en", { numeric: true });
  const weight = (text) => {
    if (/^[+-]?\d+(\.\d+)?( of \d+| to \d+)?$/.test(text)) return parseFloat(text);
    const found = DURATION.exec(text);
    if (!found) return NaN;
    const [, sign, hours = 0, minutes = 0, seconds = 0, milliseconds = 0] = found;
    return (sign === "-" ? -1 : 1) * (hours * 3600 + minutes * 60 + +seconds + milliseconds / 1000);
  };
  const compare = (a, b) => {
    const [left, right] = [weight(a), weight(b)];
    if (!isNaN(left) && !isNaN(right)) return left - right;
    if (isNaN(left) !== isNaN(right)) return isNaN(left) ? 1 : -1;
    return natural.compare(a, b);
  };
  const columnsOf = (table) => {
    const rows = [...table.tBodies[0].rows];
    return [...table.tHead.rows[0].cells].map((_, at) => {
      const places = new Map();
      const tones = [];
      const found = rows.map((row) => {
        const cell = row.cells[at];
        const text = cell.textContent;
        if (!places.has(text)) { places.set(text, places.size); tones.push(cell.className); }
        return places.get(text);
      });
      return { texts: [...places.keys()], tones, rows: found };
    });
  };

  const enhance = async (table) => {
    const columns = table.dataset.rows ? await data(table.dataset.rows) : columnsOf(table);
    const total = columns[0].rows.length;
    const stories = table.dataset.stories ? await data(table.dataset.stories) : null;
    const named = Math.max(0, [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === "POD"));
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    // On a narrow page: cards, each cell under the name of its column; few columns fit as they are.
    table.className = heads.length > 3 ? "cards" : "few";
    // Cards are no table to a browser; to a screen reader they are told to be one.
    table.setAttribute("role", "table");
    for (const part of [table.tHead, body, ...(table.tFoot ? [table.tFoot] : [])]) part.setAttribute("role", "rowgroup");
    for (const row of table.rows) {
      row.setAttribute("role", "row");
      for (const cell of row.cells) cell.setAttribute("role", cell.tagName === "TH" ? "columnheader" : "cell");
      if (row.parentElement !== table.tHead) [...row.cells].forEach((cell, place) => { cell.dataset.of = heads[place]; });
    }
    const every = Array.from({ length: total }, (_, at) => at);
    let chosen = every;
    let page = 0;

    const tell = (row, at, button) => {
      if (row.nextElementSibling?.className === "story") {
        row.nextElementSibling.remove();
        button.setAttribute("aria-expanded", "false");
        return;
      }
      const list = make("ol");
      for (const place of stories.chains[stories.rows[at]]) {
        const [offset, text, grounds] = stories.moments[place];
        const item = make("li");
        item.append(make("i", `${offset} `), make("span", text), make("small", grounds ? ` (${grounds})` : ""));
        list.append(item);
      }
      const cell = make("td", "", { colspan: String(columns.length), role: "cell" });
      cell.append(make("p", "How it comes about, in one of the possible timings:"), list);
      const told = make("tr", "", { class: "story", role: "row" });
      told.append(cell);
      row.after(told);
      button.setAttribute("aria-expanded", "true");
    };
    const rowOf = (at) => {
      const row = make("tr", "", { role: "row" });
      columns.forEach((column, place) => {
        const text = column.texts[column.rows[at]];
        const cell = make("td", "", { class: column.tones[column.rows[at]] ?? "", "data-of": heads[place], role: "cell" });
        if (stories && place === named) {
          const button = make("button", text, { type: "button", "aria-expanded": "false" });
          button.addEventListener("click", () => tell(row, at, button));
          cell.append(button);
        } else cell.textContent = text;
        row.append(cell);
      });
      return row;
    };
    const tools = make("div", "", { class: "tools" });
    const status = make("span", "", { role: "status" });
    const [back, on] = ["Previous", "Next"].map((word) => make("button", word, { type: "button" }));
    const show = () => {
      const from = page * PAGE_ROWS;
      body.replaceChildren(...chosen.slice(from, from + PAGE_ROWS).map(rowOf));
      const to = Math.min(from + PAGE_ROWS, chosen.length);
      status.textContent = chosen.length ? `Rows ${from + 1} to ${to} of ${chosen.length}` : "No row matches";
      back.disabled = page === 0;
      on.disabled = to >= chosen.length;
    };
    back.addEventListener("click", () => { page -= 1; show(); });
    on.addEventListener("click", () => { page += 1; show(); });

    if (total > 15) {
      const label = make("label", "Filter rows ");
      const input = make("input", "", { type: "search", placeholder: "part of any cell" });
      label.append(input);
      let waiting = 0;
      input.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = setTimeout(() => {
          const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
          const hits = words.map((word) => columns.map((column) => column.texts.map((text) => text.toLowerCase().includes(word))));
          chosen = every.filter((at) => hits.every((hit) => hit.some((texts, place) => texts[columns[place].rows[at]])));
          order();
          page = 0;
          show();
        }, 120);
      });
      tools.append(label, status);
      if (total > PAGE_ROWS) tools.append(back, on);
    }

    if (stories) {
      const button = make("button", "Draw these rows", { type: "button" });
      const box = make("div", "", { class: "chart", tabindex: "0", hidden: "" });
      const at = (head) => [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent.startsWith(head));
      const when = at("EVICTED-AT");
      button.addEventListener("click", () => {
        const rows = chosen.slice(page * PAGE_ROWS, (page + 1) * PAGE_ROWS).map((row, number) => {
          const text = columns[when].texts[columns[when].rows[row]];
          const ends = text.split(/ \.\. | or /).map(weight).filter((end) => !isNaN(end));
          const what = columns[named].texts[columns[named].rows[row]];
          return { row: `${String(number).padStart(4, "0")} ${what}`, what, when: text, from: Math.min(...ends), to: Math.max(...ends) };
        }).filter((row) => isFinite(row.from));
        box.hidden = false;
        drawRows(box, rows);
      });
      tools.append(button);
      table.parentElement.after(box);
    }

    if (tools.hasChildNodes()) table.parentElement.before(tools);

    let sorted = null;
    const order = () => {
      if (!sorted) return;
      const { texts, rows } = columns[sorted.place];
      const ranks = new Array(texts.length);
      texts.map((text, at) => [text, at]).sort(([a], [b]) => compare(a, b)).forEach(([, at], rank) => { ranks[at] = rank; });
      chosen = [...chosen].sort((a, b) => sorted.sign * (ranks[rows[a]] - ranks[rows[b]]) || a - b);
    };
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      const button = make("button", head.textContent, { type: "button" });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        sorted = { place, sign: sorted?.place === place ? -sorted.sign : 1 };
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", sorted.sign > 0 ? "ascending" : "descending");
        order();
        page = 0;
        show();
      });
    });
    if (table.dataset.rows) document.querySelector(`[data-more="${table.dataset.rows}"]`)?.remove();
    if (table.dataset.rows || stories || total > PAGE_ROWS) show();
    else status.textContent = `${total} rows`;
  };

  const start = async () => {
    await drawAll();
    for (const table of document.querySelectorAll("section.table table")) await enhance(table);
    document.documentElement.dataset.ready = "true";
  };
  start();
})();
