// Where ranks are, side by side: a card for each place, with the ranks that are there.
import { compactRanks, type Frame, type Place } from '../model/stacks';
import type { Words } from '../model/words';
import { h } from './dom';

const HOSTS = 3;

export function placeCards(places: readonly Place[], trans: Words): HTMLElement {
  return h('div', { class: 'ddl-places' }, ...places.map((place) => card(place, trans)));
}

function card(place: Place, trans: Words): HTMLElement {
  const name = place.ranks.length === 1 ? trans.__('Rank') : trans.__('Ranks');
  const more = place.hosts.length - HOSTS;
  const hosts = place.hosts.slice(0, HOSTS).join(', ') + (more > 0 ? ` +${more}` : '');
  const heading = h('h3', {}, `${name} ${compactRanks(place.ranks)}`, h('span', { class: 'ddl-place-host' }, hosts));
  const frames = h('ol', { class: 'ddl-frames' }, ...place.frames.map((frame) => frameLine(frame, trans)));
  const texts = [...(place.note === '' ? [] : [place.note]), ...(place.isIdle ? [trans.__('idle: waits for a cell')] : [])];
  const notes = texts.map((text) => h('p', { class: 'ddl-note' }, text));
  return h('section', { class: 'ddl-place' }, heading, ...notes, frames);
}

function frameLine({ file, line, function: name, isCell, isRunning, text }: Frame, trans: Words): HTMLElement {
  const within = (where: string): string => trans.__('%1, in %2', where, name);
  if (isCell) {
    const place = isRunning ? trans.__('cell line %1', line) : trans.__('another cell, line %1', line);
    const where = h('span', { class: 'ddl-frame-where' }, name === '<module>' ? place : within(place));
    return h('li', { class: 'ddl-frame ddl-frame-cell' }, where, h('code', {}, text));
  }
  const where = file === '' ? name : within(`${file}:${line}`);
  return h('li', { class: 'ddl-frame' }, h('span', { class: 'ddl-frame-where' }, where));
}
