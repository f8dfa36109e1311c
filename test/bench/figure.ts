import { median } from "./statistics.ts";

/** What a figure should be. A ratio is the product's to the bare Worker's, in the same round. */
export type Goal = { atMost: number; of: "ratio" | "product" } | { atLeast: number; of: "ratio" | "product" };

/** One measured quantity: a value a round. */
export interface Figure {
  section: string;
  name: string;
  unit: string;
  product?: number[];
  bare?: number[];
  goal?: Goal;
  /** What the absolute figure was on the machine that the budgets come from. */
  guidance?: string;
}

export interface Judged extends Figure {
  productMedian?: number;
  bareMedian?: number;
  /** Median of the rounds' ratios: rounds differ more than what is measured within one. */
  ratio?: number;
  verdict: "pass" | "miss" | "";
}

export function judge(figure: Figure): Judged {
  const { product, bare, goal } = figure;
  const productMedian = product && median(product);
  const bareMedian = bare && median(bare);
  const ratio = product && bare && median(product.map((value, round) => value / (bare[round] as number)));
  const judged = goal?.of === "ratio" ? ratio : productMedian;
  return { ...figure, productMedian, bareMedian, ratio, verdict: goal === undefined || judged === undefined ? "" : meets(judged, goal) ? "pass" : "miss" };
}

const meets = (value: number, goal: Goal): boolean => ("atMost" in goal ? value <= goal.atMost : value >= goal.atLeast);

/** The figures as text, a table a section. */
export function tableOf(figures: readonly Judged[]): string {
  const lines: string[] = [];
  let section = "";
  for (const figure of figures) {
    if (figure.section !== section) {
      section = figure.section;
      lines.push("", `### ${section}`, "", "| figure | product | bare | ratio | budget | |", "|---|---|---|---|---|---|");
    }
    const cells = [
      `${figure.name} (${figure.unit})`,
      range(figure.productMedian, figure.product),
      range(figure.bareMedian, figure.bare),
      figure.ratio === undefined ? "" : `${number(figure.ratio)}×`,
      [figure.goal === undefined ? "" : goalText(figure.goal), figure.guidance ?? ""].filter(Boolean).join("; "),
      figure.verdict === "miss" ? "**MISS**" : figure.verdict,
    ];
    lines.push(`| ${cells.join(" | ")} |`);
  }
  return lines.join("\n");
}

const goalText = (goal: Goal): string => `${"atMost" in goal ? `≤ ${goal.atMost}` : `≥ ${goal.atLeast}`}${goal.of === "ratio" ? "×" : ""}`;

function range(middle: number | undefined, values: readonly number[] | undefined): string {
  if (middle === undefined || values === undefined) return "";
  if (values.length === 1) return number(middle);
  return `${number(middle)} (${number(Math.min(...values))}–${number(Math.max(...values))})`;
}

function number(value: number): string {
  if (Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2);
}
