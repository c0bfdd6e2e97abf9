/** Escapes what a terminal obeys, and what turns or hides text. The two that join others, as in an emoji, stay. */
export function visible(text: string): string {
  return text.replace(
    /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => character.replace(/[^]/g, escaped),
  );
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
