// Where ranks are, side by side: a card for each place, with the ranks that are there.
import { compactRanks, type Frame, type Place } from '../model/stacks';
import { h } from './dom';

const HOSTS = 3;

export function placeCards(places: readonly Place[], words: { readonly ranks: string; readonly rank: string; readonly idle: string }): HTMLElement {
  return h('div', { class: 'ddl-places' }, ...places.map((place) => card(place, words)));
}

function card(place: Place, words: { readonly ranks: string; readonly rank: string; readonly idle: string }): HTMLElement {
  const name = place.ranks.length === 1 ? words.rank : words.ranks;
  const more = place.hosts.length - HOSTS;
  const hosts = place.hosts.slice(0, HOSTS).join(', ') + (more > 0 ? ` +${more}` : '');
  const heading = h('h3', {}, `${name} ${compactRanks(place.ranks)}`, h('span', { class: 'ddl-place-host' }, hosts));
  const frames = h('ol', { class: 'ddl-frames' }, ...place.frames.map(frameLine));
  const texts = [...(place.note === '' ? [] : [place.note]), ...(place.isIdle ? [words.idle] : [])];
  const notes = texts.map((text) => h('p', { class: 'ddl-note' }, text));
  return h('section', { class: 'ddl-place' }, heading, ...notes, frames);
}

function frameLine(frame: Frame): HTMLElement {
  if (frame.isCell) {
    const inside = frame.function === '<module>' ? '' : `, in ${frame.function}`;
    const where = h('span', { class: 'ddl-frame-where' }, `${frame.isRunning ? 'cell line' : 'another cell, line'} ${frame.line}${inside}`);
    return h('li', { class: 'ddl-frame ddl-frame-cell' }, where, h('code', {}, frame.text));
  }
  const where = frame.file === '' ? frame.function : `${frame.file}:${frame.line}, in ${frame.function}`;
  return h('li', { class: 'ddl-frame' }, h('span', { class: 'ddl-frame-where' }, where));
}
