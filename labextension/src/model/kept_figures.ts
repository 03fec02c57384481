// Figures that are written over. Of a thousand ranks come a thousand samples a second: kept as they came, each would live just
// long enough to make work for the collector of old objects, which marks all of JupyterLab's heap.

/** Figures, each of which is read by its name. */
type Kept<Of> = Readonly<Of> & { take(given: Readonly<Of>): void };

/** Return the class of figures of these names: numbers, or null. */
export function keptFigures<Of extends { [Name in keyof Of]: number | null }>(names: readonly (keyof Of & string)[]): new () => Kept<Of> {
  class Figures {
    private readonly values = new Float64Array(names.length);
    /** Separate, since a loss of NaN must be seen. */
    private readonly isKnown = new Uint8Array(names.length);

    static {
      for (const [at, name] of names.entries()) {
        Object.defineProperty(this.prototype, name, {
          get(this: Figures) {
            return this.isKnown[at] === 1 ? this.values[at] : null;
          },
        });
      }
    }

    take(given: Readonly<Of>): void {
      for (let at = 0; at < names.length; at++) {
        const value = given[names[at]!];
        this.isKnown[at] = value === null ? 0 : 1;
        this.values[at] = value ?? 0;
      }
    }
  }
  // Each name has its getter.
  return Figures as unknown as new () => Kept<Of>;
}
