"use strict";
// Draws the charts of the page from the data in it.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const colours = {
    available: "#9ccfa4", held: "#f2c45a", sold: "#3b6fb6", granted: "#2f8f4e", known: "#8a5fbf", refused: "#c2413a",
    trouble: "#222222", p50: "#3b6fb6", p99: "#e08a1e", largest: "#c2413a", decisions: "#3b6fb6", noop: "#888888", confirms: "#2f8f4e",
  };
  const height = 300;
  const widthOf = (box) => Math.max(320, box.clientWidth);
  const number = (v) => (v === null || v === undefined ? "–" : Number(v.toPrecision(v >= 1000 ? 6 : 3)).toLocaleString("en"));
  const seconds = (u, v) => (v === null ? "–" : v.toFixed(2) + " s");

  // A chart that would have nothing to show says so.
  function draw(id, columns, options) {
    const box = document.getElementById(id);
    if (!columns || columns.length < 2 || columns[0].length < 2) {
      box.textContent = "Nothing to show: there were too few calls.";
      box.dataset.empty = "true";
      return;
    }
    const plot = new uPlot(Object.assign({ width: widthOf(box), height, legend: { live: true } }, options), columns, box);
    addEventListener("resize", () => plot.setSize({ width: widthOf(box), height }));
  }

  const line = (label, colour, extra) => Object.assign(
    { label, stroke: colour, width: 1.5, points: { show: false }, spanGaps: true, value: (u, v) => number(v) }, extra);
  const timeAxis = { label: "seconds since the first request", values: (u, vs) => vs.map((v) => number(v)) };
  const axis = (label, extra) => Object.assign({ label, size: 70, values: (u, vs) => vs.map((v) => (v === null ? "" : number(v))) }, extra);

  // Stock: areas on top of each other; the legend shows each for itself.
  const [at, available, held, sold] = data.stock;
  const until = Math.max(at[at.length - 1] || 0, data.outcomes[0][data.outcomes[0].length - 1] || 0);
  const time = { time: false, range: [0, until] }; // the same for all charts over time
  const area = (label, colour, own) => line(label, colour, { fill: colour, width: 0, value: (u, v, s, i) => (i === null ? "–" : number(own[i])) });
  draw("stock", [at, at.map((_, i) => sold[i] + held[i] + available[i]), at.map((_, i) => sold[i] + held[i]), sold], {
    scales: { x: time, y: { range: (u, min, max) => [0, max * 1.03] } },
    axes: [timeAxis, axis("units")],
    series: [{ label: "at", value: seconds }, area("available", colours.available, available), area("held", colours.held, held), area("sold", colours.sold, sold)],
  });

  // Outcomes: refusals are a thousand times as many as holds, and there may be none: a scale that is linear near 0.
  draw("outcomes", data.outcomes, {
    scales: { x: time, y: { distr: 4, asinh: 10, range: (u, min, max) => [0, Math.max(10, max * 1.3)] } },
    axes: [timeAxis, axis("answers per second", { splits: (u) => [0, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000, 300000].filter((v) => v <= u.scales.y.max), filter: (u, s) => s })],
    series: [{ label: "from", value: seconds }, line("granted", colours.granted), line("known", colours.known), line("sold", colours.sold),
      line("refused", colours.refused), line("trouble", colours.trouble)],
  });

  const powers = (u) => {
    const splits = [];
    for (let p = 1e-3; p <= u.scales.y.max * 1.001; p *= 10) for (const f of [1, 3]) if (p * f >= u.scales.y.min && p * f <= u.scales.y.max) splits.push(p * f);
    return splits;
  };
  const logScale = {
    distr: 3,
    range: (u, min, max) => [Math.max(0.01, (min || 0.01) / 1.5), Math.max(max || 1, (min || 0.01) * 10) * 1.5],
  };
  draw("latency", data.latency, {
    scales: { x: time, y: logScale },
    axes: [timeAxis, axis("ms", { splits: powers, filter: (u, s) => s })],
    series: [{ label: "from", value: seconds }, line("p50", colours.p50), line("p99", colours.p99), line("largest", colours.largest)],
  });

  // Distribution: the further right, the rarer.
  const tables = [], drawn = [{ label: "slower than", value: (u, v) => (v === null ? "–" : percent(v)) }];
  for (const [name, key] of [["decisions", "distribution"], ["no-op", "noop"], ["confirms", "confirms"]]) {
    if (data[key] && data[key].length) {
      tables.push(data[key]);
      drawn.push(line(name, colours[name === "no-op" ? "noop" : name]));
    }
  }
  function percent(v) {
    return (100 * (1 - Math.pow(10, -v))).toFixed(Math.max(0, Math.ceil(v) - 1)).replace(/\.$/, "") + " %";
  }
  draw("distribution", tables.length ? uPlot.join(tables) : null, {
    scales: { x: { time: false }, y: logScale },
    axes: [
      { label: "part of the calls that was faster", splits: (u) => [0, 1, 2, 3, 4, 5, 6].filter((v) => v <= u.scales.x.max), values: (u, vs) => vs.map(percent) },
      axis("ms", { splits: powers, filter: (u, s) => s }),
    ],
    series: drawn,
  });
})();
