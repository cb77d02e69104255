"use strict";
// The charts can be read without this. It adds what a pointer or the arrow keys show, zoom along x, and switches for lines.
(() => {
  const scale = (text) => {
    const [low, high, powers] = text.split(",").map(Number);
    const to = powers ? Math.log10 : (value) => value;
    const from = powers ? (value) => 10 ** value : (value) => value;
    return {
      value: (share) => from(to(low) + share * (to(high) - to(low))),
      share: (value) => (to(value) - to(low)) / (to(high) - to(low)),
    };
  };
  const short = (value) => {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-3) return value.toExponential(2);
    return value.toLocaleString("en", { maximumSignificantDigits: 3 });
  };
  const points = (path) => {
    const found = [];
    for (const [, x, y] of path.getAttribute("d").matchAll(/[ML]([\d.]+) ([\d.]+)/g)) found.push([+x, +y]);
    return path.classList.contains("area") ? found.slice(0, -2) : found;
  };
  const nearest = (list, x) => list.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));

  for (const figure of document.querySelectorAll("figure")) {
    const svg = figure.querySelector("svg.chart");
    if (!svg) continue;
    const plot = svg.querySelector(".plot");
    const cursor = svg.querySelector(".cursor");
    const reading = figure.querySelector(".reading");
    const labels = svg.querySelector(".ticks-x");
    const whole = labels.innerHTML;
    const [x, y] = [scale(svg.dataset.x), scale(svg.dataset.y)];
    const [left, top, width, height] = ["x", "y", "width", "height"].map((name) => +plot.getAttribute(name));
    const [, , across, down] = plot.getAttribute("viewBox").split(" ").map(Number);
    const lines = [...plot.querySelectorAll("[data-line]")].map((path) => ({ path, list: points(path) }));
    const names = [...figure.querySelectorAll(".legend [data-line]")];
    const stacked = lines.some(({ path }) => path.classList.contains("area"));
    let [from, to] = [0, 1];
    let at = null;
    let begun = null;

    const shown = (share) => from + share * (to - from);
    const place = (event) => {
      const box = svg.getBoundingClientRect();
      const inner = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      return Math.min(1, Math.max(0, (inner - left) / width));
    };
    const show = (share) => {
      at = share;
      const whereX = shown(share) * across;
      const texts = [`${svg.dataset.xName} ${short(x.value(shown(share)))}`];
      const values = new Map();
      for (const { path, list } of lines) {
        if (!path.classList.contains("hidden") && !path.classList.contains("span") && list.length > 0) {
          values.set(+path.dataset.line, y.value(1 - nearest(list, whereX)[1] / down));
        }
      }
      for (const [number, value] of [...values].sort((one, other) => one[0] - other[0])) {
        // An area ends where the one below it ends, and what it adds.
        const own = stacked ? value - (values.get(number - 1) ?? 0) : value;
        texts.push(`${names[number]?.textContent ?? svg.dataset.yName} ${short(own)}`);
      }
      reading.textContent = texts.join(" · ");
      const line = left + share * width;
      cursor.setAttribute("d", begun === null ? `M${line} ${top}v${height}` : `M${left + begun * width} ${top}H${line}v${height}H${left + begun * width}z`);
    };
    const hide = () => {
      at = null;
      reading.textContent = "";
      cursor.setAttribute("d", "");
    };
    const zoom = (low, high) => {
      [from, to] = [low, high];
      plot.setAttribute("viewBox", `${low * across} 0 ${(high - low) * across} ${down}`);
      if (low === 0 && high === 1) {
        labels.innerHTML = whole;
      } else {
        labels.replaceChildren();
        for (let part = 0; part <= 4; part += 1) {
          const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
          text.setAttribute("x", left + (part / 4) * width);
          text.setAttribute("y", top + height + 14);
          text.setAttribute("text-anchor", "middle");
          text.textContent = short(x.value(shown(part / 4)));
          labels.append(text);
        }
      }
      hide();
    };
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("pointerdown", (event) => { begun = place(event); });
    svg.addEventListener("pointermove", (event) => show(place(event)));
    svg.addEventListener("pointerup", (event) => {
      const end = place(event);
      const [low, high] = [Math.min(begun ?? end, end), Math.max(begun ?? end, end)];
      begun = null;
      if (high - low > 0.03) zoom(shown(low), shown(high));
    });
    svg.addEventListener("pointerleave", () => { begun = null; hide(); });
    svg.addEventListener("dblclick", () => zoom(0, 1));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -0.02, ArrowRight: 0.02 }[event.key];
      if (step) {
        show(Math.min(1, Math.max(0, (at ?? 0.5) + step)));
        event.preventDefault();
      } else if (event.key === "+" || event.key === "=") {
        const middle = shown(at ?? 0.5);
        const half = (to - from) / 4;
        zoom(Math.max(0, middle - half), Math.min(1, middle + half));
      } else if (event.key === "Escape" || event.key === "-") {
        zoom(0, 1);
      }
    });
    for (const button of names.filter((name) => name.tagName === "BUTTON")) {
      button.addEventListener("click", () => {
        const hidden = button.getAttribute("aria-pressed") === "true";
        button.setAttribute("aria-pressed", String(!hidden));
        for (const { path } of lines) {
          if (path.dataset.line === button.dataset.line) path.classList.toggle("hidden", hidden);
        }
      });
    }
  }
})();
