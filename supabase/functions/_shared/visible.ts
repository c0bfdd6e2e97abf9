/** Escapes what a terminal obeys, and what turns or hides text. The two that join others, as in an emoji, stay. */
export function visible(text: string): string {
  const escape = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return text.replace(
    /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => character.replace(/[^]/g, escape),
  );
}
