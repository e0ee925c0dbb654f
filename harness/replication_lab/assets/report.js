/* What a report can do with scripts: filter its rows, and draw its charts so that they can be read, zoomed and reduced.
   Without scripts the page shows all rows, and each chart as a picture. */
(() => {
  "use strict";

  // --- filters: by tone and engine (buttons), by words (a field) ---

  for (const bar of document.querySelectorAll(".filters")) {
    const table = bar.parentElement.querySelector("table.filtered");
    if (!table) continue;
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
    const wanted = { tone: "", engine: "", words: "" };
    const told = bar.querySelector('[role="status"]');
    const apply = () => {
      let shown = 0;
      for (const row of rows) {
        const fits = (key) => !wanted[key] || row.dataset[key] === wanted[key];
        row.hidden = !(fits("tone") && fits("engine") && row.textContent.toLowerCase().includes(wanted.words));
        shown += !row.hidden;
      }
      told.textContent = shown === rows.length ? "" : `${shown} of ${rows.length}`;
    };
    bar.hidden = false;
    for (const button of bar.querySelectorAll("button")) {
      const key = button.dataset.filter;
      const fitting = rows.filter((row) => !button.dataset.value || row.dataset[key] === button.dataset.value);
      if (!fitting.length) {
        button.remove();
        continue;
      }
      button.addEventListener("click", () => {
        wanted[key] = button.dataset.value;
        for (const other of bar.querySelectorAll(`button[data-filter="${key}"]`)) {
          other.setAttribute("aria-pressed", String(other === button));
        }
        apply();
      });
    }
    const field = bar.querySelector("input");
    if (field) field.addEventListener("input", () => { wanted.words = field.value.trim().toLowerCase(); apply(); });
  }

  // A link to a folded part unfolds it.
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target.parentElement; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();

  // --- charts ---

  if (typeof uPlot !== "function") return;
  const DASHES = [[], [10, 4], [5, 3], [10, 3, 2, 3], [2, 3], [6, 8]];
  const probe = document.createElement("span");
  document.body.append(probe);
  const colour = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const said = (value) => (value == null ? "–" : String(Number(value.toPrecision(4))));

  // Behind the lines: the spans. Over them: their labels, each where the one before leaves room.
  const inside = (plot, paint) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    paint(ctx, bbox, (value) => plot.valToPos(value, "x", true));
    ctx.restore();
  };

  // By the kind of a band, its colour and opacity; one for each case has an edge only.
  const FILLS = {
    fault: ["--fault-band", 1],
    round: ["--condition-band", 1],
    "round odd": ["--condition-band", 0],
    case: ["--condition-band", 0],
  };

  const bands = (chart) => (plot) => inside(plot, (ctx, bbox, at) => {
    for (const [begin, end, , kind] of chart.bands) {
      const [left, wide] = [at(begin), Math.max(at(end) - at(begin), 1)];
      const [fill, alpha] = FILLS[kind] ?? ["--doubt-soft", 0.55];
      ctx.globalAlpha = alpha;
      ctx.fillStyle = colour(fill);
      if (alpha) ctx.fillRect(left, bbox.top, wide, bbox.height);
      if (!kind.startsWith("case")) continue;
      ctx.globalAlpha = 1;
      ctx.fillStyle = colour("--line");
      ctx.fillRect(left, bbox.top, 1, bbox.height);
    }
  });

  const bandLabels = (chart) => (plot) => inside(plot, (ctx, bbox, at) => {
    ctx.font = `${Math.round(11 * devicePixelRatio)}px system-ui, sans-serif`;
    ctx.fillStyle = colour("--ink");
    ctx.textAlign = "left";
    ctx.textBaseline = "top";
    const free = [-Infinity, -Infinity, -Infinity];
    for (const [begin, end, label, kind] of chart.bands) {
      const wide = ctx.measureText(label).width;
      if (kind.startsWith("case") && wide > at(end) - at(begin) - 4 * devicePixelRatio) continue;
      const left = Math.min(at(begin) + 4 * devicePixelRatio, bbox.left + bbox.width - wide - 2);
      const row = free.findIndex((end) => left >= end);
      if (row < 0) continue;
      ctx.fillText(label, left, bbox.top + (3 + 14 * row) * devicePixelRatio);
      free[row] = left + wide + 6 * devicePixelRatio;
    }
  });

  // Round figures for a log axis: the finest series that has room.
  const SERIES = [[1, 1.2, 1.5, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5], [1, 3], [1]];
  const logTicks = (low, high, most) => {
    let found = [];
    for (const series of SERIES) {
      found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
        for (const each of series) {
          const tick = Number((each * 10 ** power).toPrecision(6));
          if (tick >= low && tick <= high) found.push(tick);
        }
      }
      if (found.length <= most) break;
    }
    return found;
  };
  const onLog = (most) => ({ splits: (_, __, low, high) => logTicks(low, high, most), filter: (_, ticks) => ticks });

  const series = (line) => {
    const look = line.look % DASHES.length;
    const stroke = colour(`--series-${look + 1}`);
    const plain = { label: line.label, stroke, width: 1.8, dash: DASHES[look], spanGaps: line.spans, value: (_, v) => said(v) };
    if (line.steps) return { ...plain, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } };
    if (line.dots) return { ...plain, paths: () => null, points: { show: true, size: 6, fill: stroke } };
    return { ...plain, points: { show: line.x.length <= 40, size: 6, fill: stroke } };
  };

  // The case under the pointer, where the chart has a band for each.
  const at = (chart, value) => {
    const band = chart.bands.find(([begin, end, , kind]) => kind.startsWith("case") && value >= begin && value < end);
    return band ? `${said(value)}, case: ${band[2]}` : said(value);
  };

  const options = (chart, width) => {
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--edge") } };
    const labels = (_, ticks) => ticks.map((tick) => (tick == null ? "" : said(tick)));
    return {
      width,
      height: chart.height + 40,
      cursor: chart.group ? { sync: { key: chart.group } } : {},
      scales: {
        x: { time: false, distr: chart.logX ? 3 : 1, ...(chart.ends ? { range: (_, low, high) => (low <= chart.lines[0].x[0] && high >= chart.lines[0].x.at(-1) ? chart.ends : [low, high]) } : chart.logX ? { range: (_, low, high) => [low / 1.05, high * 1.05] } : {}) },
        y: { distr: chart.logY ? 3 : 1, range: (_, low, high) => (chart.logY ? [low / 1.1, high * 1.1] : [Math.min(0, low), high * 1.06 || 1]) },
      },
      axes: [
        { ...axis, label: chart.x, labelSize: 20, values: labels, grid: { show: false }, ...(chart.ticks.length ? { splits: () => chart.ticks, filter: (_, ticks) => ticks } : chart.logX ? onLog(width / 60) : {}) },
        { ...axis, label: chart.y, labelSize: 20, size: 56, values: labels, ...(chart.logY ? onLog(6) : {}) },
      ],
      legend: { markers: { dash: (_, at) => (at && DASHES[chart.lines[at - 1].look % 6].length ? (DASHES[chart.lines[at - 1].look % 6][0] > 4 ? "dashed" : "dotted") : "solid") } },
      series: [{ label: "at", value: (_, v) => at(chart, v) }, ...chart.lines.map(series)],
      hooks: { drawClear: [bands(chart)], draw: [bandLabels(chart)] },
    };
  };

  const same = (lines) => lines.every((line) => line.x.length === lines[0].x.length && line.x.every((x, at) => x === lines[0].x[at]));

  const table = (chart) => {
    const rows = chart.lines.map((line) => {
      const order = [...line.x.keys()].sort((a, b) => line.x[a] - line.x[b]);
      return { ...line, x: order.map((at) => line.x[at]), y: order.map((at) => line.y[at]) };
    });
    chart.lines = rows;
    if (same(rows)) return [rows[0].x, ...rows.map((line) => line.y)];
    for (const line of rows) line.spans = !line.steps;
    return uPlot.join(rows.map((line) => [line.x, line.y]));
  };

  // The legend hides a series: by the keyboard as well.
  const operable = (plot) => {
    plot.root.querySelectorAll(".u-legend .u-series").forEach((row, at) => {
      const head = row.querySelector("th");
      if (!at || !head) return;
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          plot.setSeries(at, { show: !plot.series[at].show });
        }
      });
      plot.hooks.setSeries = [...(plot.hooks.setSeries || []), () => button.setAttribute("aria-pressed", String(plot.series[at].show))];
    });
  };

  const figures = [...document.querySelectorAll("figure.plot")];
  const plots = new Map();
  const draw = (figure) => {
    const holder = figure.querySelector("script[type='application/json']");
    if (!holder) return;
    const chart = JSON.parse(holder.textContent);
    for (const line of chart.lines) line.x ??= chart.lines[0].x;
    if (!figure.clientWidth) return;
    plots.get(figure)?.destroy();
    const data = table(chart);
    const plot = new uPlot(options(chart, figure.clientWidth), data, figure);
    plots.set(figure, plot);
    operable(plot);
    figure.classList.add("live");
  };
  // Only what comes into view is drawn: a page can have many charts.
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting && !plots.has(entry.target)) draw(entry.target);
  }, { rootMargin: "400px" });
  figures.forEach((figure) => seen.observe(figure));
  const again = () => [...plots.keys()].forEach(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let waiting = 0;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(again, 150); });
})();
