/**
 * Words of others as they may stand in a log: cut off at a length, and without what could start a new
 * line or command a terminal (control and format characters, separators of lines and paragraphs).
 */
export function printable(text: string, maxLength = 500): string {
  const cut = text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
  return cut.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, " ");
}
