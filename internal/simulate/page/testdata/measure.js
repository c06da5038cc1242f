// Runs in a copy of the page that the browser test makes, and leaves what it measures in an attribute of the root element.
(() => {
  const root = document.documentElement;
  const box = (e) => { const r = e.getBoundingClientRect(); return {x: r.x, y: r.y, width: r.width, height: r.height}; };
  const visible = (e) => { const s = getComputedStyle(e); return s.display !== 'none' && s.visibility !== 'hidden' && e.getBoundingClientRect().width > 0; };
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const scrolls = (e) => e.closest('.scroll') !== null;
  const named = (e) => e.tagName + '.' + (e.getAttribute('class') || '') + ' ' + (e.textContent || '').trim().slice(0, 40);
  const background = (e) => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (c !== 'rgba(0, 0, 0, 0)' && c !== 'transparent') return c;
    }
    return 'rgb(255, 255, 255)';
  };
  const own = (e) => [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim() !== '');
  const texts = all('body *').filter((e) => own(e) && visible(e) && !['TITLE', 'SCRIPT', 'title'].includes(e.tagName));
  const contrasts = new Map();
  for (const e of texts) {
    const svg = e instanceof SVGElement;
    const style = getComputedStyle(e);
    const pair = {text: svg ? style.fill : style.color, ground: background(e), size: parseFloat(style.fontSize), example: named(e)};
    contrasts.set(pair.text + pair.ground, contrasts.get(pair.text + pair.ground) || pair);
  }
  const bars = (selector, rects) => all(selector).map((svg) => ({
    label: svg.getAttribute('aria-label'), svg: box(svg),
    rects: all(rects, svg).map((r) => ({box: box(r), fill: getComputedStyle(r).fill, title: r.querySelector('title')?.textContent || ''})),
  }));
  const details = document.querySelector('details');
  const measured = {
    width: innerWidth, scrollWidth: root.scrollWidth, height: Math.ceil(root.getBoundingClientRect().height), dark: matchMedia('(prefers-color-scheme: dark)').matches,
    resources: performance.getEntriesByType('resource').map((r) => r.name),
    outside: all('body *').filter((e) => visible(e) && !scrolls(e) && !e.closest('defs')).filter((e) => { const r = e.getBoundingClientRect(); return r.right > innerWidth + 0.5 || r.left < -0.5; }).map(named),
    axes: all('svg.time, svg.values').filter(visible).map((svg) => ({kind: svg.getAttribute('class'), svg: box(svg), texts: all('text', svg).filter(visible).map((t) => ({text: t.textContent, box: box(t)}))})),
    comparison: bars('.comparison svg.bars', '.p50'),
    spreads: bars('.comparison svg.bars', '.spread'),
    timeline: bars('details .timeline svg.bars', 'rect').slice(0, all('.timeline svg.bars', details).length),
    areas: all('svg.area', details).map((svg) => ({svg: box(svg), layers: all('path', svg).map((p) => ({fill: getComputedStyle(p).fill, kind: p.getAttribute('class'), top: p.getBBox().y, left: p.getBBox().x, width: p.getBBox().width}))})),
    contrasts: [...contrasts.values()],
    unnamed: all('svg').filter((s) => s.getAttribute('aria-hidden') !== 'true' && !(s.getAttribute('role') === 'img' && s.getAttribute('aria-label'))).length,
  };
  root.setAttribute('data-measured', JSON.stringify(measured));
})();
