// What is drawn behind and instead of lines: faults as shaded bands, states as coloured tracks.

import { colour } from "./colours.js";
import { SILENT } from "./condition.js";

const FONT = "600 12px system-ui, sans-serif";
export const ROW = 18;
const ROWS = 4;
const LETTER = 7.2; // the mean width of a letter of FONT
const MARKS = { good: "✓", warn: "!", bad: "✕", unknown: "?" };
const TINTS = { good: "good", warn: "doubt", bad: "bad", unknown: "muted" };

const scaled = (plot) => devicePixelRatio || plot.pxRatio || 1;

function inside(plot, draw) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = FONT.replace("12px", `${12 * scaled(plot)}px`);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  draw(ctx, bbox, scaled(plot));
  ctx.restore();
}

const place = (plot, at) => plot.valToPos(at, "x", true);

/** Return a plugin of uPlot that shades the time of each fault; with `labels`, its name stands above the chart. */
export function faults(history, labels) {
  return { hooks: { drawClear: (plot) => {
    inside(plot, (ctx, bbox, scale) => history.faults.forEach((span) => shade(plot, ctx, bbox, scale, span, history.now)));
    if (labels) names(plot, history);
  } } };
}

function shade(plot, ctx, bbox, scale, span, now) {
  const left = place(plot, span.begin);
  const right = place(plot, span.end ?? Math.max(now, span.begin));
  const fault = breaks(span);
  ctx.fillStyle = colour(fault ? "fault-band" : "condition-band");
  ctx.fillRect(left, bbox.top, right - left, bbox.height);
  ctx.strokeStyle = colour(fault ? "bad" : "note");
  ctx.lineWidth = scale;
  ctx.setLineDash(span.seen === false ? [2 * scale, 3 * scale] : []);
  for (const edge of span.end === null ? [left] : [left, right]) line(ctx, edge, bbox.top, edge, bbox.top + bbox.height);
}

function line(ctx, x, y, toX, toY) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(toX, toY);
  ctx.stroke();
}

/** Return whether a span is a fault, not only a slower link. */
const breaks = (span) => span.kind !== "link" || Object.keys(SILENT).some((name) => span.label.includes(name));

const nameOf = (span) => (span.seen === false ? `${span.label}: no effect seen` : span.label);

/**
 * Return for each fault the row of its name, so that none covers another one, the newest
 * ones first; `width` is the chart's, in pixels.
 */
export function rowsOf(history, width) {
  const [from, to] = history.range;
  const perSecond = width / (to - from);
  const begins = [];
  return [...history.faults].reverse().map((span) => {
    const wide = nameOf(span).length * LETTER + 12;
    const left = Math.min(Math.max(0, (span.begin - from) * perSecond), width - wide);
    let row = 0;
    while (begins[row] < left + wide) row += 1;
    begins[row] = left;
    return { span, row, left };
  }).filter(({ row }) => row < ROWS);
}

/** Write the names of the faults into the rows above the chart. */
function names(plot, history) {
  const { ctx, bbox } = plot;
  const scale = scaled(plot);
  ctx.save();
  ctx.font = FONT.replace("12px", `${12 * scale}px`);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const { span, row, left } of rowsOf(history, bbox.width / scale)) {
    const x = bbox.left + left * scale;
    const y = bbox.top - (row + 0.5) * ROW * scale;
    const tint = breaks(span) ? "bad" : "note";
    ctx.fillStyle = colour(`${tint}-soft`);
    ctx.fillRect(x, y - (ROW / 2 - 1) * scale, ctx.measureText(nameOf(span)).width + 8 * scale, (ROW - 2) * scale);
    ctx.fillStyle = colour(tint);
    ctx.fillText(nameOf(span), x + 4 * scale, y);
  }
  ctx.restore();
}

/** Return a plugin of uPlot that draws a track of coloured bands for each node, with the state's words on them. */
export function tracks(history) {
  return { hooks: { draw: (plot) => inside(plot, (ctx, bbox, scale) => {
    const rows = runs(history.shown);
    const high = bbox.height / Math.max(1, rows.size);
    [...rows.values()].forEach((bands, at) => {
      for (const band of bands) strip(plot, ctx, scale, band, bbox, bbox.top + at * high, high);
    });
  }) } };
}

/** Return for each track its states with begin and end; seconds with the same state are one band. */
export function runs(samples) {
  const found = new Map();
  for (const { at, bands } of samples) {
    for (const { track, state, level } of bands) {
      if (!found.has(track)) found.set(track, []);
      const row = found.get(track);
      const last = row.at(-1);
      if (last && last.state === state && last.level === level && at - last.end < 3) last.end = at;
      else row.push({ track, state, level, begin: at - 1, end: at });
    }
  }
  return found;
}

function strip(plot, ctx, scale, { track, state, level, begin, end }, bbox, top, high) {
  const left = Math.max(place(plot, begin), bbox.left);
  const right = place(plot, end);
  const gap = 2 * scale;
  ctx.fillStyle = colour(level === "unknown" ? "raised" : `${TINTS[level]}-soft`);
  ctx.fillRect(left, top + gap, right - left, high - 2 * gap);
  ctx.fillStyle = colour(TINTS[level]);
  ctx.fillRect(left, top + gap, 3 * scale, high - 2 * gap);
  if (level === "bad") hatch(ctx, scale, left, right, top + gap, high - 2 * gap);
  for (const text of [`${MARKS[level]} ${track}: ${state}`, `${MARKS[level]} ${state}`, MARKS[level]]) {
    if (ctx.measureText(text).width + 12 * scale < right - left) {
      const wide = ctx.measureText(text).width + 8 * scale;
      ctx.fillStyle = colour(level === "unknown" ? "raised" : `${TINTS[level]}-soft`);
      ctx.fillRect(left + 4 * scale, top + gap, wide, high - 2 * gap);
      ctx.fillStyle = colour(TINTS[level]);
      ctx.fillText(text, left + 8 * scale, top + high / 2);
      return;
    }
  }
}

/** Draw slanted lines, so that a bad state is seen without its colour. */
function hatch(ctx, scale, left, right, top, high) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, right - left, high);
  ctx.clip();
  ctx.strokeStyle = colour("bad");
  ctx.globalAlpha = 0.35;
  ctx.lineWidth = scale;
  for (let x = left - high; x < right; x += 7 * scale) line(ctx, x, top + high, x + high, top);
  ctx.restore();
}
