// What the start form says, checked as it is typed, and the line that it comes to. No DOM.

export interface Device {
  readonly index: number;
  readonly name: string;
  readonly uuid: string;
  /** As `--gpus` takes it: the index, or the UUID of a part of a GPU (MIG), which shares its index with the other parts. */
  readonly device: string;
  readonly total_bytes: number;
  /** Null where the driver does not say. */
  readonly free_bytes: number | null;
}

export interface StartFields {
  readonly ranks: string;
  /** The devices to use; null for all of them, empty for the cores. */
  readonly gpus: readonly string[] | null;
  readonly threads: string;
  readonly name: string;
  readonly oversubscribe: boolean;
  /** The ranks outlive the notebook's kernel. */
  readonly keep: boolean;
}

export type StartField = 'ranks' | 'threads' | 'name';

export interface StartPlan {
  readonly errors: Readonly<Partial<Record<StartField, string>>>;
  /** The magic to run; null while something is wrong. */
  readonly line: string | null;
}

// As jupyter_ddl/cluster/spec.py has it; the kernel checks again.
const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/;
const COUNT = /^[1-9][0-9]{0,4}$/;

export function planStart(fields: StartFields, devices: readonly Device[]): StartPlan {
  const errors: Partial<Record<StartField, string>> = {};
  const ranks = fields.ranks.trim();
  const threads = fields.threads.trim();
  const name = fields.name.trim();
  const available = fields.gpus?.length ?? devices.length;
  if (ranks !== '' && !COUNT.test(ranks)) {
    errors.ranks = 'Ranks must be a whole number of at least 1.';
  } else if (available > 0 && Number(ranks) > available && !fields.oversubscribe) {
    errors.ranks = `Ranks must not outnumber GPUs. Write ${available} or less, or let ranks share a GPU.`;
  }
  if (threads !== '' && !COUNT.test(threads)) {
    errors.threads = 'Threads must be a whole number of at least 1.';
  }
  if (name !== '' && !NAME.test(name)) {
    errors.name = 'A name has 1 to 64 letters, digits, dots, underscores or hyphens, with no dot in front.';
  }
  if (Object.keys(errors).length > 0) {
    return { errors, line: null };
  }
  const options = [
    ranks === '' ? '' : `-n ${ranks}`,
    fields.gpus === null ? '' : `--gpus ${fields.gpus.length === 0 ? 'none' : fields.gpus.join(',')}`,
    threads === '' ? '' : `--threads ${threads}`,
    name === '' ? '' : `--name ${name}`,
    fields.oversubscribe ? '--oversubscribe' : '',
    fields.keep ? '--keep' : '',
  ];
  return { errors, line: ['%ddl start', ...options.filter((option) => option !== '')].join(' ') };
}
