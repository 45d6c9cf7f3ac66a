// What the tests do with the page, and what they then see. Cells are pairs of the text shown and the title.
const frame = () => new Promise((done) => requestAnimationFrame(done));
const drawn = async (where) => { while (!document.querySelector(`${where} svg path`)) await frame(); };
const all = (where, what) => [...document.querySelectorAll(`${where} ${what}`)];
const texts = (row) => [...row.cells].map((cell) => [cell.textContent, cell.title]);
const cells = (where) => all(where, "tbody tr").map(texts);
const tip = (where) => all(where, ".tip:not([hidden]) div").map((line) => line.textContent);
const press = (node, key) => node.dispatchEvent(new KeyboardEvent("keydown", { key }));
await drawn("#roofline-chart");
const field = document.querySelector("#configurations-table input");
const seen = { configurations: cells("#configurations-table") };

field.value = "u-net bf16 graphs";
field.dispatchEvent(new Event("input", { bubbles: true }));
seen.filtered = cells("#configurations-table").map((row) => row.at(-1)[0]);
seen.count = document.querySelector("#configurations-table [role=status]").textContent;
all("#configurations-table", "[type=reset]")[0].click();
await new Promise((done) => setTimeout(done, 10));
const power = all("#configurations-table", "th button").find((button) => button.textContent === "power");
seen.sorted = [0, 1].map(() => {
  power.click();
  const order = power.parentElement.getAttribute("aria-sort");
  return [order, cells("#configurations-table").map((row) => row.find((cell) => cell[1].startsWith("power"))?.[1] ?? "")];
});

const wanted = "unet-128px-cuda-b16-w0-fp32-e3";
all("#configurations-table", "tbody tr").find((row) => row.lastChild.textContent === wanted).querySelector("button").click();
await drawn("#timeline-chart");
await drawn("#memory-chart");
seen.step = { variant: document.querySelector("#profiled").value, kernels: cells("#kernels-table") };
const timeline = document.querySelector("#timeline-chart svg");
seen.bars = all("#timeline-chart", "svg rect").length;
seen.stretches = Array.from({ length: 40 }, () => { press(timeline, "ArrowRight"); return tip("#timeline-chart"); });
document.querySelector("[aria-label='Zoom in']").click();
document.querySelector("[aria-label='Zoom in']").click();
seen.zoomed = [all("#timeline-chart", "svg rect").length, document.querySelector("#timeline-chart [role=status]").textContent];
document.querySelector("[aria-label='Whole step']").click();
seen.whole = all("#timeline-chart", "svg rect").length;
const memory = document.querySelector("#memory-chart svg");
seen.memory = Array.from({ length: 20 }, () => { press(memory, "ArrowRight"); return tip("#memory-chart"); });
const point = document.querySelector("#roofline-chart circle").getBoundingClientRect();
document.querySelector("#roofline-chart svg").dispatchEvent(
  new PointerEvent("pointermove", { clientX: point.x + 3, clientY: point.y + 3 }));
seen.roofline = tip("#roofline-chart");
return seen;
