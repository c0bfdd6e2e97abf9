import type { Page, View } from "./browser.ts";

/** Presses a button, and returns the name and the path of what the browser downloads. */
export async function download(
  view: View,
  button: string,
): Promise<{ name: string; path: string }> {
  // Without the dialog for a file, which nobody answers here, the browser downloads.
  await view.page.evaluate("window.showSaveFilePicker = undefined");
  const downloaded = view.page.waitForEvent("download");
  await view.press(button);
  const file = await downloaded;
  return { name: file.suggestedFilename(), path: await file.path() };
}

/** Makes a file of the browser's own storage stand for the one that a person would choose. Returns how to read it. */
export async function storeFiles(page: Page): Promise<(name: string) => Promise<string>> {
  const open = (name: string, options = "") =>
    `navigator.storage.getDirectory().then((folder) => folder.getFileHandle(${name}, ${options}))`;
  await page.evaluate(
    `window.showSaveFilePicker = ({ suggestedName }) => ${
      open("suggestedName", "{ create: true }")
    }`,
  );
  return (name) =>
    page.evaluate(
      `${
        open(JSON.stringify(name))
      }.then((handle) => handle.getFile()).then((file) => file.text())`,
    );
}
