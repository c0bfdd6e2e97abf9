import { State } from "./parts.tsx";

const HUES = ["#3b82f6", "#14b8a6", "#8b5cf6", "#f59e0b", "#ec4899", "#22c55e"] as const;

/** An action code in words: "Feedback given". */
export function actionName(code: string): string {
  const words = code.replaceAll("_", " ");
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}

/** An action in words, with a dot whose colour is always that of its code. */
export function ActionName({ code }: { code: string }) {
  let sum = 0;
  for (const character of code) sum = (sum * 31 + character.charCodeAt(0)) % 65_521;
  return <State colour={HUES[sum % HUES.length] ?? HUES[0]}>{actionName(code)}</State>;
}
