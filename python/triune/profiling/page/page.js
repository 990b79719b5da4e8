"use strict";
// What answers on a page: tables that sort, and charts that tell what lies under the pointer or the keys, zoom, and hide series.
// The page can be read without it.

for (const head of document.querySelectorAll("thead th")) {
  head.addEventListener("click", () => {
    const table = head.closest("table"), body = table.tBodies[0], at = head.cellIndex;
    const key = row => row.cells[at].dataset.value ?? row.cells[at].textContent;
    const numbers = [...body.rows].every(row => !isNaN(key(row)));
    const was = head.getAttribute("aria-sort");
    const down = was === "none" ? numbers : was === "ascending";
    for (const each of table.tHead.rows[0].cells) each.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const order = (a, b) => isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b)) : key(a) - key(b);
    body.append(...[...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)));
  });
}

const tip = document.querySelector(".tip");
// What marks say, by lines: many say the same.
const lines = JSON.parse(document.getElementById("lines").textContent);
const said = path => path.dataset.t.split(" ").map(at => lines[at]).join("\n");
// Pixels within which a mark answers; lines and dots are met within some around them.
const REACH = 14, SLACK = 4;
// The narrowest window, as a part of the widest.
const CLOSEST = 1 / 5000;

class Chart {
  constructor(element) {
    this.element = element;
    this.panels = [...element.querySelectorAll(".panel")];
    const [low, , width] = this.box(this.panels[0]);
    this.home = [low, low + width];
    this.window = this.home;
    this.whole = element.dataset.whole?.split(" ").map(Number);
    for (const button of element.querySelectorAll(".legend button")) button.addEventListener("click", () => this.hide(button));
    for (const button of element.querySelectorAll("[data-view]")) button.addEventListener("click", () => this.view(button));
    for (const button of element.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", () => this.zoom(Number(button.dataset.zoom)));
    }
    for (const panel of this.panels) this.listen(panel);
  }

  box(panel) { return panel.querySelector("svg").getAttribute("viewBox").split(" ").map(Number); }

  // Marks by panel, in the axes' units; measured once, while all are shown.
  marks(panel) {
    this.known ??= new Map(this.panels.map(each => [each, [...each.querySelectorAll("[data-t]")].map(path => {
      const {x, y, width, height} = path.getBBox(), group = path.parentNode, bars = group.classList.contains("bars");
      return {path, group, left: x, right: x + width, bottom: y, top: y + height,
              slack: bars ? 0 : Number(path.getAttribute("stroke-width") ?? 0) / 2 + SLACK};
    }).sort((a, b) => a.left - b.left || b.top - a.top)]));
    return this.known.get(panel).filter(mark => !mark.group.hasAttribute("display"));
  }

  hide(button) {
    this.marks(this.panels[0]);
    const off = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!off));
    for (const group of this.element.querySelectorAll("g[data-name]")) {
      if (group.dataset.name !== button.textContent) continue;
      if (off) group.setAttribute("display", "none"); else group.removeAttribute("display");
    }
  }

  // Shows another window of the y axis.
  view(button) {
    for (const each of button.parentNode.children) each.setAttribute("aria-pressed", String(each === button));
    for (const panel of this.panels) {
      const axes = [...panel.querySelectorAll(".y")];
      if (axes.length < 2) continue;
      axes.forEach((axis, at) => { axis.hidden = at !== Number(button.dataset.view); });
      const [low, high] = axes[button.dataset.view].dataset.window.split(" ").map(Number), [left, , width] = this.box(panel);
      panel.querySelector("svg").setAttribute("viewBox", `${left} ${-high} ${width} ${high - low}`);
    }
    this.tell(null);
  }

  // Nears by a factor around a value, or the middle; 0 shows what was shown at first.
  zoom(factor, around) {
    if (!this.whole) return;
    const [low, high] = this.window, middle = around ?? (low + high) / 2;
    if (factor) this.show(middle - (middle - low) / factor, middle + (high - middle) / factor); else this.show(...this.home);
  }

  show(low, high) {
    const [first, last] = this.whole, width = Math.min(Math.max(high - low, (last - first) * CLOSEST), last - first);
    const begin = Math.min(Math.max(low, first), last - width);
    this.window = [begin, begin + width];
    for (const panel of this.panels) {
      const [, top, , height] = this.box(panel);
      panel.querySelector("svg").setAttribute("viewBox", `${begin} ${top} ${width} ${height}`);
      this.ticks(panel);
    }
    this.tell(null);
  }

  ticks(panel) {
    const [low, high] = this.window, most = Math.max(2, panel.clientWidth / 150), raw = (high - low) / most;
    const ten = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map(k => k * ten).find(each => each >= raw);
    const spans = [];
    for (let at = Math.ceil(low / step); at * step <= high; at++) {
      const span = document.createElement("span"), label = document.createElement("b");
      span.style.left = `${100 * (at * step - low) / (high - low)}%`;
      label.textContent = (at * step).toLocaleString("en", {maximumFractionDigits: 3});
      span.append(label);
      spans.push(span);
    }
    const axis = panel.querySelector(".x");
    axis.classList.remove("crowded");
    axis.replaceChildren(...spans);
  }

  // Where a mark is on the panel, in pixels: left, top, right, bottom.
  place(panel, mark) {
    const [left, top, width, height] = this.box(panel);
    const x = value => (value - left) / width * panel.clientWidth, y = value => (-value - top) / height * panel.clientHeight;
    return [x(mark.left), y(mark.top), x(mark.right), y(mark.bottom)];
  }

  nearest(panel, x, y) {
    let best = null, least = REACH;
    for (const mark of this.marks(panel)) {
      const [left, top, right, bottom] = this.place(panel, mark);
      const far = Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom)) - mark.slack;
      // Of those that lie on each other the one drawn last is seen.
      if (far <= least) [best, least] = [mark, far];
    }
    return best;
  }

  tell(mark, panel) {
    this.told?.path.classList.remove("on");
    this.told = mark;
    tip.textContent = mark ? said(mark.path) : "";
    if (!mark) return;
    mark.path.classList.add("on");
    const [left, top, right, bottom] = this.place(panel, mark), frame = panel.getBoundingClientRect();
    const middle = (Math.max(left, 0) + Math.min(right, frame.width)) / 2 + frame.left;
    const above = Math.max(top, 0) + frame.top - tip.offsetHeight - 10, below = Math.min(bottom, frame.height) + frame.top + 10;
    const x = Math.min(Math.max(middle - tip.offsetWidth / 2, 4), document.documentElement.clientWidth - tip.offsetWidth - 4);
    tip.style.transform = `translate(${x}px, ${above > 4 ? above : below}px)`;
  }

  listen(panel) {
    let begin = null, chosen = null;
    const at = event => {
      const frame = panel.getBoundingClientRect();
      return [event.clientX - frame.left - panel.clientLeft, event.clientY - frame.top];
    };
    const value = x => this.window[0] + x / panel.clientWidth * (this.window[1] - this.window[0]);
    panel.classList.toggle("zooms", Boolean(this.whole));
    panel.addEventListener("pointermove", event => {
      const [x, y] = at(event);
      if (begin !== null && Math.abs(x - begin) > 4) {
        if (!chosen) {
          chosen = document.createElement("div");
          chosen.className = "chosen";
          panel.append(chosen);
          panel.setPointerCapture(event.pointerId);
        }
        chosen.style.left = `${Math.min(x, begin)}px`;
        chosen.style.width = `${Math.abs(x - begin)}px`;
        this.tell(null);
      } else {
        this.tell(this.nearest(panel, x, y), panel);
      }
    });
    panel.addEventListener("pointerdown", event => { if (this.whole && event.button === 0) [begin] = at(event); });
    const done = (event, take) => {
      const [x] = at(event);
      if (chosen && take) this.show(value(Math.min(x, begin)), value(Math.max(x, begin)));
      chosen?.remove();
      begin = chosen = null;
    };
    panel.addEventListener("pointerup", event => done(event, true));
    panel.addEventListener("pointercancel", event => done(event, false));
    panel.addEventListener("pointerleave", () => this.tell(null));
    panel.addEventListener("blur", () => this.tell(null));
    panel.addEventListener("dblclick", () => this.zoom(0));
    panel.addEventListener("keydown", event => this.key(panel, event));
  }

  key(panel, event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const marks = this.marks(panel), [low, high] = this.window, now = marks.indexOf(this.told);
    const first = Math.max(0, marks.findIndex(mark => mark.right >= low));
    const next = {ArrowRight: now < 0 ? first : now + 1, ArrowLeft: now < 0 ? first : now - 1, Home: 0, End: marks.length - 1}[event.key];
    if (next !== undefined) {
      const mark = marks[Math.min(Math.max(next, 0), marks.length - 1)];
      if (!mark) return;
      if (this.whole && (mark.left > high || mark.right < low)) {
        const middle = (mark.left + mark.right) / 2;
        this.show(middle - (high - low) / 2, middle + (high - low) / 2);
      }
      this.tell(mark, panel);
    } else if (["+", "=", "-", "0"].includes(event.key) && this.whole) {
      const told = this.told, around = told && (told.left + told.right) / 2;
      this.zoom({"+": 2, "=": 2, "-": 0.5, "0": 0}[event.key], around ?? undefined);
      if (told) this.tell(told, panel);
    } else if (event.key === "Escape") {
      this.tell(null);
    } else {
      return;
    }
    event.preventDefault();
  }
}

for (const element of document.querySelectorAll(".chart")) new Chart(element);
