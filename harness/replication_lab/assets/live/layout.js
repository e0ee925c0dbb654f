// Where the nodes are in the picture: a tree downward from the source, or a ring if nodes copy to each other.

export const NODE = { width: 124, height: 62 };
const GAP = { tree: { x: 16, y: 70 }, ring: { x: 150, y: 96 } };
const WIDE_PAIR = 44; // further room between two nodes of a row, for the labels of their links
export const TOP = 46; // room for the clients
const EDGE = 26; // the lane of the clients' arrow
const LEAST_WIDTH = 400;

/** Return {width, height, ring, places: Map(name → {x, y, row})}, x and y of the middle of each node. */
export function layout(nodes, links) {
  const names = ends(nodes, links);
  const tree = isTree(links);
  const rows = tree ? levels(names, links) : ring(names);
  const gap = tree ? GAP.tree : GAP.ring;
  const widest = Math.max(...rows.map((row) => row.length));
  const step = NODE.width + gap.x + (tree && widest === 2 ? WIDE_PAIR : 0);
  const width = Math.max(LEAST_WIDTH, widest * step - gap.x + 2 * EDGE);
  const places = new Map();
  rows.forEach((row, at) => {
    const first = width / 2 - (step * (row.length - 1)) / 2;
    row.forEach((name, column) => {
      places.set(name, { x: first + column * step, y: TOP + NODE.height / 2 + at * (NODE.height + gap.y), row: at });
    });
  });
  return { width, height: TOP + rows.length * (NODE.height + gap.y) - gap.y + 8, ring: !tree, places };
}

/** Return all nodes, and after them the ends of links that are no nodes, such as an arbiter. */
function ends(nodes, links) {
  return [...new Set([...nodes.map((node) => node.name), ...links.flatMap((link) => [link.source, link.target])])];
}

function isTree(links) {
  const targets = links.map((link) => link.target);
  const pairs = links.map((link) => [link.source, link.target].sort().join(" "));
  return new Set(targets).size === targets.length && new Set(pairs).size === pairs.length && !cyclic(links);
}

function cyclic(links) {
  return links.length > 0 && links.every((link) => links.some((other) => other.target === link.source));
}

function levels(names, links) {
  const depth = (name) => {
    const into = links.find((link) => link.target === name);
    return into ? depth(into.source) + 1 : 0;
  };
  const rows = [];
  for (const name of names) (rows[depth(name)] ??= []).push(name);
  return rows;
}

/** Return two nodes on top and the others below them. */
function ring(names) {
  return [names.slice(0, 2), names.slice(2)].filter((row) => row.length);
}
