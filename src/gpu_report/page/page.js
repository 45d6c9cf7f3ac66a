// Draws the tables and charts of the page from the JSON in #data. Numbers are shown as they are there: nothing is computed.

const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (character) => character.charCodeAt(0));
const data = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
const byId = (id) => document.getElementById(id);

function built(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
const html = (name, attributes = {}, ...children) => built(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) =>
  built(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// What the reader chose is in the address, so that a link shows it again: words and choices of a filter, the order of a
// table, the step.

const chosen = new URLSearchParams(location.search);
let waiting = 0;
function remember(name, value) {
  if (value) chosen.set(name, value);
  else chosen.delete(name);
  clearTimeout(waiting); // browsers allow few changes a second
  waiting = setTimeout(() => {
    try {
      history.replaceState(null, "", `${chosen.size ? `?${chosen}` : location.pathname}${location.hash}`);
    } catch { /* a page inside another, such as a notebook's, has no address of its own */ }
  }, 200);
}

// Tables: {columns, rows, variants}; a cell is a text, null, or a pair of the value in the CSV file and its text.

function sortKey(cell) {
  return Array.isArray(cell) ? cell[0] : cell;
}

function compared(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
}

function tableCell(cell, column) {
  if (cell === null) return html("td", { class: "number" }, "–");
  if (!Array.isArray(cell)) return html("td", { class: column.kind }, ...cell.split(/(?<=\+)/).flatMap((part) => [part, html("wbr")]));
  const [value, text] = cell;
  const [number, interval] = text.split(/ (?=\()/);
  const td = html("td", { class: "number", title: `${column.csv} = ${value}` }, number);
  if (interval) td.append(html("span", { class: "interval" }, ` ${interval}`));
  return td;
}

// Draws a table into a place; `tools` gives it a filter. Returns what shows those rows alone for which a test holds.
function drawTable(place, table, { tools = false, onName } = {}) {
  const { columns, rows, variants } = table;
  const name = place.id.replace("-table", "");
  const order = chosen.get(`${name}.order`); // the position of a column, with a minus where the greatest is first
  let sorted = order && columns[Math.abs(order) - 1] ? { column: Math.abs(order) - 1, sign: Math.sign(order) } : null;
  let among = () => true;
  const choices = [];
  const words = html("input", { type: "search", placeholder: "words in any column" });
  words.value = chosen.get(`${name}.words`) ?? "";
  const count = html("span", { role: "status" });
  const body = html("tbody");

  function redraw() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.map((_, index) => index).filter((index) => {
      const texts = rows[index].map((cell) => (Array.isArray(cell) ? cell[1] : cell ?? "")).join(" ").toLowerCase();
      return among(index) && wanted.every((word) => texts.includes(word))
        && choices.every(({ column, select }) => !select.value || rows[index][column] === select.value);
    });
    if (sorted) {
      const { column, sign } = sorted;
      const key = (index) => sortKey(rows[index][column]);
      // What has no number is last in either order.
      shown.sort((a, b) => compared(key(a), key(b)) * (key(a) === null || key(b) === null ? 1 : sign));
    }
    body.replaceChildren(...shown.map((index) => {
      const cells = rows[index].map((cell, position) => tableCell(cell, columns[position]));
      if (onName && variants[index] in data.names) {
        const open = html("button", { type: "button", title: "show its step" }, cells[0].textContent);
        open.addEventListener("click", () => onName(variants[index]));
        cells[0].replaceChildren(open);
      }
      return html("tr", {}, ...cells);
    }));
    count.textContent = `${shown.length} of ${rows.length} shown`;
    heads.forEach((head, position) => head.setAttribute("aria-sort",
      sorted?.column !== position ? "none" : sorted.sign > 0 ? "ascending" : "descending"));
  }

  function changed() {
    remember(`${name}.words`, words.value);
    choices.forEach(({ column, select }) => remember(`${name}.${columns[column].header}`, select.value));
    remember(`${name}.order`, sorted && `${(sorted.column + 1) * sorted.sign}`);
    redraw();
  }

  const heads = columns.map((column, position) => {
    const button = html("button", { type: "button" }, column.header);
    const head = html("th", { scope: "col", class: column.kind, "aria-sort": "none", title: column.meaning || "" }, button);
    if (column.unit) head.append(html("span", { class: "unit" }, column.unit));
    button.addEventListener("click", () => {
      const first = column.kind === "number" && column.meaning ? -1 : 1; // the greatest number first
      sorted = { column: position, sign: sorted?.column === position ? -sorted.sign : first };
      changed();
    });
    return head;
  });
  if (tools) {
    columns.forEach(({ kind, header }, column) => {
      const values = [...new Set(rows.map((row) => row[column]))].filter(Boolean);
      if (kind !== "text" || values.length < 2 || values.length > 12) return;
      const select = html("select", {}, html("option", { value: "" }, "all"), ...values.map((value) => html("option", {}, value)));
      select.value = chosen.get(`${name}.${header}`) ?? "";
      if (select.selectedIndex < 0) select.value = ""; // what another page has
      choices.push({ column, select });
    });
    const bar = html("form", { class: "tools", role: "search", "aria-label": "Filter" },
      html("label", {}, "filter", words),
      ...choices.map(({ column, select }) => html("label", {}, columns[column].header, select)),
      html("button", { type: "reset" }, "Show all"), count);
    bar.addEventListener("input", changed);
    bar.addEventListener("submit", (event) => event.preventDefault());
    bar.addEventListener("reset", () => setTimeout(changed));
    place.append(bar);
  }
  const label = place.dataset.label;
  place.append(html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    html("table", {}, html("caption", {}, label), html("thead", {}, html("tr", {}, ...heads)), body)));
  redraw();
  return (test) => { among = test; redraw(); };
}

// Charts: `render(root, width)` draws into the SVG element and returns its items, boxes in pixels with lines of text,
// which pointer and arrow keys reach.

function newChart(place, label, render) {
  const tip = html("div", { class: "tip", role: "status" });
  const root = svg("svg", { tabindex: 0, role: "img", "aria-label": `${label}. Arrow keys move through what it shows.` });
  const mark = svg("rect", { fill: "none", stroke: "currentColor", "stroke-width": 2, rx: 2 });
  const holder = html("div", { class: "chart" }, root, tip);
  let items = [];
  let current = -1;
  let width = 0;

  function show(index) {
    const item = items[index];
    tip.hidden = !item;
    mark.remove();
    current = item ? index : -1;
    if (!item) return;
    const [left, top, right, bottom] = item.box;
    built(mark, { x: left - 2, y: top - 2, width: right - left + 4, height: bottom - top + 4 }, []);
    root.append(mark);
    tip.replaceChildren(...item.texts.map((text) => html("div", {}, text)));
    tip.style.top = `${Math.min(bottom, top + 60) + 8}px`;
    tip.style.left = `${Math.max(0, Math.min((left + right) / 2, holder.clientWidth - tip.offsetWidth))}px`;
  }

  function nearest(event) {
    const frame = root.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const away = items.map(({ box: [left, top, right, bottom] }) =>
      Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom)));
    const least = Math.min(...away);
    return least < 15 ? away.indexOf(least) : -1;
  }

  function redraw() {
    width = holder.clientWidth;
    root.replaceChildren();
    items = render(root, width);
    show(-1);
  }

  root.addEventListener("pointermove", (event) => { if (!event.buttons) show(nearest(event)); });
  root.addEventListener("click", (event) => show(nearest(event)));
  root.addEventListener("pointerleave", () => show(-1));
  root.addEventListener("blur", () => show(-1));
  root.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && items.length) {
      show((current + step + items.length) % items.length);
      event.preventDefault();
    }
    if (event.key === "Escape") show(-1);
  });
  place.append(holder);
  // Draws it for the first time too; not within the observer's turn, as drawing changes the height.
  new ResizeObserver(() => requestAnimationFrame(() => { if (holder.clientWidth !== width) redraw(); })).observe(holder);
  return { root, redraw };
}

const rounded = (value) => +value.toPrecision(12);

function linearTicks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const ticks = [];
  for (let tick = Math.ceil(low / step); tick * step <= high + step * 1e-9; tick++) ticks.push(rounded(tick * step));
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high; power++) ticks.push(rounded(10 ** power));
  return ticks;
}

function prefixed(value) {
  const [factor, prefix] = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]].find(([each]) => value >= each)
    ?? [1, ""];
  return `${rounded(value / factor)} ${prefix}`.trim();
}

function text(x, y, words, attributes = {}) {
  return svg("text", { x, y, ...attributes }, words);
}

// Grid lines with their labels; `frame` is {left, top, right, bottom}, x and y give the pixels of a value.
function drawAxes(root, frame, { xTicks, yTicks = [], x, y, xLabel, yLabel = "", xText = String, yText = String }) {
  const { left, top, right, bottom } = frame;
  for (const tick of xTicks)
    root.append(svg("path", { d: `M${x(tick)} ${top}V${bottom}`, class: "grid" }),
      text(x(tick), bottom + 15, xText(tick), { "text-anchor": "middle" }));
  for (const tick of yTicks)
    root.append(svg("path", { d: `M${left} ${y(tick)}H${right}`, class: "grid" }),
      text(left - 6, y(tick) + 4, yText(tick), { "text-anchor": "end" }));
  root.append(text((left + right) / 2, bottom + 33, xLabel, { "text-anchor": "middle" }), text(0, top - 8, yLabel));
}

function legend(place, entries) {
  place.append(html("ul", { class: "legend" }, ...entries.map(([name, color]) =>
    html("li", {}, html("span", { class: "swatch", style: `background:${color}` }), name))));
}

// One step along time

const UNKNOWN = "kind not known";

function lookOf(lane, category) {
  const colors = lane === "phases" ? data.colors.phases : data.colors.work;
  return category ? colors[category] ?? data.colors.others : data.colors.unknown;
}

const inMs = (time) => +time.toFixed(3); // to a microsecond

function drawTimeline(place, step) {
  const laneHeight = 30;
  const count = step.begin.length;
  const least = step.wall / 2000;
  let [from, to] = [0, step.wall];
  const range = html("span", { role: "status" });

  function render(root, width) {
    const frame = { left: 92, top: 4, right: width - 12, bottom: 4 + step.lanes.length * laneHeight };
    const x = (time) => frame.left + ((time - from) / (to - from)) * (frame.right - frame.left);
    built(root, { viewBox: `0 0 ${width} ${frame.bottom + 40}` }, []);
    drawAxes(root, frame, { xTicks: linearTicks(from, to, width / 110), x, xLabel: "time since the step began (ms)" });
    step.lanes.forEach((lane, position) => root.append(text(frame.left - 6, frame.top + position * laneHeight + 19, lane, { "text-anchor": "end" })));
    const items = [];
    for (let index = 0; index < count; index++) {
      if (step.end[index] < from || step.begin[index] > to) continue;
      const [lane, category] = [step.lanes[step.lane[index]], step.categories[step.category[index]]];
      const [left, right] = [x(Math.max(step.begin[index], from)), x(Math.min(step.end[index], to))];
      const full = laneHeight - 6;
      const height = full * Math.max(step.busy[index], 0.08);
      const bottom = frame.top + (step.lane[index] + 1) * laneHeight - 3;
      root.append(svg("rect", { x: left, y: bottom - height, width: Math.max(right - left, 0.5), height,
        fill: lookOf(lane, category), stroke: "#6b6b6b", "stroke-width": 0.3 }));
      items.push({ box: [left, bottom - full, Math.max(right, left + 0.5), bottom],
        texts: [`${category || UNKNOWN}, ${lane}`, `${inMs(step.begin[index])} to ${inMs(step.end[index])} ms`, `busy share ${step.busy[index]}`] });
    }
    range.textContent = from === 0 && to === step.wall ? `step ${step.step}: ${inMs(step.wall)} ms`
      : `${inMs(from)} to ${inMs(to)} of ${inMs(step.wall)} ms`;
    return items;
  }

  // Magnifies by a factor around a time, and moves by a share of what is shown; never leaves the step.
  function zoom(factor, around = (from + to) / 2, move = 0) {
    const span = Math.min(step.wall, Math.max(least, (to - from) / factor));
    const begin = around - ((around - from) / (to - from)) * span + move * span;
    from = Math.min(Math.max(0, begin), step.wall - span);
    to = span === step.wall ? step.wall : from + span;
    chart.redraw();
  }

  const actions = { "Zoom in": ["+", () => zoom(2)], "Zoom out": ["−", () => zoom(0.5)], "Earlier": ["←", () => zoom(1, undefined, -0.5)],
    "Later": ["→", () => zoom(1, undefined, 0.5)], "Whole step": ["all", () => zoom(1e-9)] };
  const tools = html("p", { class: "tools", role: "group", "aria-label": "Zoom" }, ...Object.entries(actions).map(([name, [sign, act]]) => {
    const button = html("button", { type: "button", "aria-label": name, title: name }, sign);
    button.addEventListener("click", act);
    return button;
  }), range, html("span", {}, "Drag to move, double-click or Ctrl and wheel to zoom; or the keys + and −."));
  place.append(tools);
  const chart = newChart(place, "One step along time", render);
  const timeAt = (event) => {
    const frame = chart.root.getBoundingClientRect();
    return from + ((event.clientX - frame.left - 92) / (frame.width - 104)) * (to - from);
  };
  chart.root.addEventListener("keydown", (event) => { if ("+-".includes(event.key)) zoom(event.key === "+" ? 2 : 0.5); });
  chart.root.addEventListener("dblclick", (event) => zoom(2, timeAt(event)));
  chart.root.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, timeAt(event));
  }, { passive: false });
  chart.root.addEventListener("pointermove", (event) => {
    if (event.buttons === 1) zoom(1, undefined, -event.movementX / (chart.root.clientWidth - 104));
  });
  const looks = new Map();
  for (let index = 0; index < count; index++) {
    const [lane, category] = [step.lanes[step.lane[index]], step.categories[step.category[index]]];
    const color = lookOf(lane, category);
    const known = color !== data.colors.others || lane === "phases";
    looks.set(!category ? UNKNOWN : lane === "phases" ? `${category} (phase)` : known ? category : "all others", color);
  }
  legend(place, [...looks].sort(([a], [b]) => b.endsWith("(phase)") - a.endsWith("(phase)")));
}

// Memory over time

function drawMemory(place, { device, at, allocated, reserved }) {
  const series = [["allocated", allocated, data.colors.allocated], ["reserved", reserved, data.colors.reserved]]
    .filter(([, values]) => values.some((value) => value !== null));
  const greatest = Math.max(...series.flatMap(([, values]) => values)) || 1;
  const yTicks = linearTicks(0, greatest, 5);
  if (yTicks.at(-1) < greatest) yTicks.push(yTicks.at(-1) + yTicks[1]);
  const highest = yTicks.at(-1);
  newChart(place, `Memory over time, ${device}`, (root, width) => {
    const frame = { left: 70, top: 26, right: width - 12, bottom: 220 };
    const [first, last] = [Math.min(0, at[0]), at.at(-1)];
    const x = (time) => frame.left + ((time - first) / (last - first || 1)) * (frame.right - frame.left);
    const y = (size) => frame.bottom - (size / highest) * (frame.bottom - frame.top);
    built(root, { viewBox: `0 0 ${width} 260` }, []);
    drawAxes(root, frame, { xTicks: linearTicks(first, last || 1, width / 110), yTicks, x, y,
      xLabel: "time since the profiled steps began (ms)", yLabel: `${device} memory (MiB)`, yText: (tick) => tick.toLocaleString("en") });
    for (const [, values, color] of series) {
      const path = values.map((value, index) => (index ? `H${x(at[index])}V${y(value)}` : `M${x(at[0])} ${y(value)}`));
      root.append(svg("path", { d: path.join(""), fill: "none", stroke: color, "stroke-width": 1.6 }));
    }
    return at.map((time, index) => ({ box: [x(time), frame.top, x(time), frame.bottom],
      texts: [`at ${time} ms`, ...series.map(([name, values]) => `${name} ${values[index]} MiB`)] }));
  });
  legend(place, series.map(([name, , color]) => [name, color]));
}

// Roofline

function drawRoofline(place, { device, roofs, points }) {
  const color = (precision) => data.colors.precisions[precision] ?? data.colors.unknown;
  const used = new Set(points.map((point) => point.precision));
  const peaks = roofs.filter((roof) => used.has(roof.precision));
  const copy = roofs.find((roof) => !roof.precision);
  const ridge = (peak) => (copy ? peak.rate / copy.rate : 0);
  const xs = [...points.map((point) => point.intensity), ...(copy ? peaks.map(ridge) : [])];
  const ys = [...points.map((point) => point.achieved), ...peaks.map((peak) => peak.rate)];
  const [lowX, highX, lowY, highY] = [Math.min(...xs) / 2, Math.max(...xs) * 4, Math.min(...ys) / 2, Math.max(...ys) * 3];
  place.append(html("h3", {}, device));
  newChart(place, `Roofline of ${device}`, (root, width) => {
    const frame = { left: 52, top: 26, right: width - 12, bottom: Math.min(420, Math.max(280, width * 0.5)) };
    const scale = (value, low, high, begin, end) => begin + (Math.log(value / low) / Math.log(high / low)) * (end - begin);
    const x = (value) => scale(value, lowX, highX, frame.left, frame.right);
    const y = (value) => scale(value, lowY, highY, frame.bottom, frame.top);
    built(root, { viewBox: `0 0 ${width} ${frame.bottom + 40}` }, []);
    drawAxes(root, frame, { xTicks: logTicks(lowX, highX), yTicks: logTicks(lowY, highY), x, y, yText: prefixed,
      xText: (tick) => tick.toLocaleString("en", { maximumFractionDigits: 9 }), xLabel: "arithmetic intensity (FLOP/B)", yLabel: "achieved per device (FLOP/s)" });
    if (copy && peaks.length) {
      const start = Math.max(lowX, lowY / copy.rate);
      const end = Math.max(...peaks.map(ridge));
      root.append(svg("path", { d: `M${x(start)} ${y(start * copy.rate)}L${x(end)} ${y(end * copy.rate)}`, stroke: "currentColor", "stroke-width": 1.5 }),
        text(frame.left + 6, frame.top + 12, `slope: device copy, ${copy.text}`));
    }
    peaks.forEach((peak, index) => {
      // One that a later one covers is broader, so that both are seen.
      const isCovered = peaks.slice(index + 1).some((later) => Math.abs(later.rate / peak.rate - 1) < 0.05);
      root.append(svg("path", { d: `M${x(Math.max(lowX, ridge(peak)))} ${y(peak.rate)}H${frame.right}`,
        stroke: color(peak.precision), "stroke-width": isCovered ? 6 : 2.5 }));
    });
    return points.map((point) => {
      const [left, top] = [x(point.intensity), y(point.achieved)];
      root.append(svg("circle", { cx: left, cy: top, r: 5, fill: color(point.precision), stroke: "currentColor", "stroke-width": 0.8 }));
      return { box: [left - 4, top - 4, left + 4, top + 4], texts: [point.name, ...point.texts] };
    });
  });
  legend(place, peaks.map(({ precision, text }) => [`${precision}, peak ${text}`, color(precision)]));
}

// The page: what it has a place for

function showStep(variant) {
  if (byId("profiled")) byId("profiled").value = variant;
  const parts = [
    ["timeline-chart", data.timelines[variant] && ((place) => drawTimeline(place, data.timelines[variant]))],
    ["memory-chart", data.memory?.[variant] && ((place) => data.memory[variant].forEach((each) => drawMemory(place, each)))],
  ];
  for (const [id, draw] of parts) {
    const place = byId(id);
    if (!place) continue;
    place.replaceChildren();
    place.closest(".part").hidden = !draw;
    if (draw) draw(place);
  }
  for (const [id, show, table] of ofStep) {
    byId(id).closest(".part").hidden = !table.variants.includes(variant);
    show((index) => table.variants[index] === variant);
  }
}

function chooseStep(variant) {
  remember("step", variant);
  showStep(variant);
}

function openStep(variant) {
  chooseStep(variant);
  byId("step").scrollIntoView();
  byId("profiled").focus({ preventScroll: true });
}

const ofStep = ["advice", "operations", "kernels", "ranges", "modules", "shapes"].filter((name) => byId(`${name}-table`)).map((name) =>
  [`${name}-table`, drawTable(byId(`${name}-table`), data[name]), data[name]]);
for (const name of ["configurations", "scaling", "links", "comparison", "machines"])
  if (byId(`${name}-table`)) drawTable(byId(`${name}-table`), data[name], { tools: true, onName: name === "configurations" && openStep });
if (byId("step")) {
  const select = byId("profiled");
  select?.append(...Object.entries(data.names).map(([variant, name]) => html("option", { value: variant, title: variant }, name)));
  select?.addEventListener("change", () => chooseStep(select.value));
  showStep([chosen.get("step"), data.first, select?.value].find((variant) => Object.hasOwn(data.names, variant)) ?? data.first ?? "");
}
if (byId("roofline")) data.roofline.forEach((device) => drawRoofline(byId("roofline-chart"), device));
