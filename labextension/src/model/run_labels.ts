// What a run's user says of it, as it is written in one field. No DOM.
import type { RunRecord } from './runs';
import type { LabelChange } from './server';

export type Label = 'name' | 'note' | 'tags';

export function labelText(record: RunRecord, label: Label): string {
  return label === 'tags' ? record.tags.join(' ') : (record[label] ?? '');
}

/** Return what changes: of tags those that come and go, so that one which another page adds meanwhile stays. */
export function changeOf(record: Pick<RunRecord, 'tags'>, label: Label, text: string): LabelChange {
  if (label !== 'tags') {
    return { [label]: text.trim() };
  }
  const tags = [...new Set(text.split(/[\s,]+/).filter((tag) => tag !== ''))];
  return { remove_tags: record.tags.filter((tag) => !tags.includes(tag)), add_tags: tags.filter((tag) => !record.tags.includes(tag)) };
}
