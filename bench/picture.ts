/** Draws pictures of measured figures. All pictures share one style. */
import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';

/** The style of all pictures. */
export const look = {
  $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
  background: 'white',
  padding: 10,
  config: {
    font: 'Helvetica, Arial, sans-serif',
    axis: { grid: true, gridColor: '#e8e8e8' },
    view: { stroke: null },
  },
} as const;

export const COLOURS = ['#0b7a4b', '#8a5cc2', '#d08a1d', '#2f6fb3'];

/** Renders the picture and returns it as SVG. */
export async function svgOf(spec: TopLevelSpec): Promise<string> {
  const view = new View(parse(compile(spec).spec), { renderer: 'none' });
  try {
    return await view.toSVG();
  } finally {
    view.finalize();
  }
}
