/** From paths on the server's machine to paths in JupyterLab. Law: pure. */

/**
 * The path below the server's folder, or null where the file is not in it.
 *
 * @param file - An absolute path, or one that is below the server's folder already.
 * @param serverRoot - The server's folder, as the page was told: absolute, or `~/…` for the person's home.
 */
export function contentsPath(file: string, serverRoot: string): string | null {
  const path = file.replace(/\\/g, '/');
  const root = serverRoot.replace(/\\/g, '/').replace(/\/+$/, '');
  if (!/^(\/|[a-zA-Z]:\/)/.test(path)) {
    return path;
  }
  if (!root.startsWith('~')) {
    return path.startsWith(`${root}/`) ? path.slice(root.length + 1) : null;
  }
  // The home itself is not known here: /home/NAME and /root are where it is on Linux, /Users/NAME elsewhere.
  const home = /^(\/root|\/(?:home|Users)\/[^/]+|[a-zA-Z]:\/Users\/[^/]+)\//.exec(path);
  const below = home ? path.slice(home[0].length) : null;
  const folder = root.slice(1).replace(/^\//, '');
  if (below === null || !(folder === '' || below.startsWith(`${folder}/`))) {
    return null;
  }
  return folder === '' ? below : below.slice(folder.length + 1);
}
