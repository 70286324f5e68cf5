/** The theme's colours for a canvas, followed as the theme changes. */

import { useLayoutEffect, useState } from 'react';

import { IPageContext } from '../experiment/context';
import { ITheme, theme } from './paint';

export function useTheme({ themeChanged }: IPageContext): ITheme {
  const [now, setNow] = useState(theme);
  useLayoutEffect(() => {
    let turn = 0;
    // The style sheet of the new theme counts from the next frame on.
    const slot = () => {
      turn = requestAnimationFrame(() => setNow(theme()));
    };
    themeChanged.connect(slot);
    return () => {
      cancelAnimationFrame(turn);
      themeChanged.disconnect(slot);
    };
  }, [themeChanged]);
  return now;
}
