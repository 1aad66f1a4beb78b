// What a page does (sim/report/html.hpp): the switch of light and dark, tables that sort, figures by ECharts.
// The data of a figure is JSON beside it; a timeline's is written by sim/report/timeline_figure.cpp.
'use strict';
(() => {
  const root = document.documentElement;
  const figures = [];  // {draw(), resize(width)}, of all figures that have been drawn once

  function make(tag, properties, ...children) {
    const element = Object.assign(document.createElement(tag), properties || {});
    element.append(...children);
    return element;
  }

  // A colour of page.css as it is now: "rgb(1, 2, 3)".
  const probe = make('span', {hidden: true});
  function colour(name) {
    probe.style.color = `var(--${name.replaceAll(' ', '-')})`;
    return getComputedStyle(probe).color;
  }

  const escaped = text => make('i', {textContent: text}).innerHTML;
  const short = value => typeof value === 'number' ? Number(value.toPrecision(6)).toLocaleString('en') : value;

  // ---- light and dark ------------------------------------------------------------------------------------------------

  const systemDark = matchMedia('(prefers-color-scheme: dark)');
  let printing = false;
  const isDark = () => (root.dataset.theme || (systemDark.matches ? 'dark' : 'light')) === 'dark';

  function drawAll() {
    for (const figure of figures) figure.draw();
  }

  function startTheme() {
    const button = document.getElementById('theme');
    try { if (localStorage.pdlTheme) root.dataset.theme = localStorage.pdlTheme; } catch { /* a page without storage */ }
    const name = () => { button.textContent = isDark() ? 'Light' : 'Dark'; };
    button.hidden = false;
    button.setAttribute('aria-label', 'switch between light and dark');
    button.addEventListener('click', () => {
      root.dataset.theme = isDark() ? 'light' : 'dark';
      try { localStorage.pdlTheme = root.dataset.theme; } catch { /* as above */ }
      name();
      drawAll();
    });
    systemDark.addEventListener('change', () => { name(); drawAll(); });
    name();
  }

  // ---- tables ----------------------------------------------------------------------------------------------------------

  // The exact number of a cell, else its text; nothing for "-".
  function cellValue(row, column) {
    const cell = row.cells[column], text = cell.textContent;
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    if (text === '-' || text === '') return null;
    return Number.isNaN(Number(text)) ? text : Number(text);
  }

  function compareValues(a, b) {
    if (typeof a === 'number' && typeof b === 'number') return a - b;
    if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
    return a.localeCompare(b, 'en', {numeric: true});
  }

  // Ascending, descending, as it was; what is empty is last.
  function sortTable(table, original, column) {
    const head = table.tHead.rows[0].cells[column];
    const next = {none: 'ascending', ascending: 'descending', descending: 'none'}[head.getAttribute('aria-sort')];
    for (const cell of table.tHead.rows[0].cells) cell.setAttribute('aria-sort', 'none');
    head.setAttribute('aria-sort', next);
    const rows = original.slice();
    if (next !== 'none') {
      const values = new Map(rows.map(row => [row, cellValue(row, column)]));
      const sign = next === 'ascending' ? 1 : -1;
      rows.sort((r, s) => {
        const a = values.get(r), b = values.get(s);
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * compareValues(a, b);
      });
    }
    table.tBodies[0].append(...rows);
  }

  function startTable(table) {
    const original = [...table.tBodies[0].rows];
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = cell.querySelector('button');
      if (button) button.addEventListener('click', () => sortTable(table, original, column));
    });
  }

  // ---- charts ----------------------------------------------------------------------------------------------------------

  function axisStyle() {
    const line = colour('line'), quiet = colour('quiet');
    return {
      axisLine: {lineStyle: {color: colour('strong-line')}}, axisTick: {lineStyle: {color: colour('strong-line')}},
      axisLabel: {color: quiet, hideOverlap: true}, nameTextStyle: {color: quiet}, splitLine: {lineStyle: {color: line}},
      minorSplitLine: {show: false},
    };
  }

  function tooltipStyle() {
    return {backgroundColor: colour('raised'), borderColor: colour('strong-line'), textStyle: {color: colour('text'), fontSize: 12},
            confine: true, valueFormatter: short};
  }

  const isBar = data => data.type === 'bar' || data.type === 'stacked_bar';

  // Bars with long names lie.
  const lies = data => isBar(data) && data.x_labels.length > 0 &&
      (data.x_labels.length > 16 || Math.max(...data.x_labels.map(label => label.length)) > 12);

  function chartSeries(data, one, index, turned) {
    const named = data.x_labels.length > 0;
    const positive = value => !data.y_logarithmic || value > 0;
    const points = one.y.map((y, i) => {
      const x = named || isBar(data) ? (one.x.length ? one.x[i] : i) : one.x[i];
      const value = turned ? [positive(y) ? y : null, x] : [x, positive(y) ? y : null];
      return one.labels[i] ? {value, name: one.labels[i]} : {value};
    });
    const shade = colour(one.reference ? 'quiet' : `series-${index % 8}`);
    const series = {name: one.name || data.y_title, data: points, color: shade, animation: false};
    if (one.reference)
      return {...series, type: 'line', symbol: 'none', lineStyle: {type: 'dashed', width: 1.2}, tooltip: {show: data.type !== 'scatter'}};
    if (data.type === 'scatter') return {...series, type: 'scatter', symbol: ['circle', 'triangle', 'rect', 'diamond'][(index >> 3) % 4], symbolSize: 8, itemStyle: {opacity: .75}};
    if (isBar(data))
      return {...series, type: 'bar', stack: data.type === 'stacked_bar' ? 'all' : undefined, barMaxWidth: 48,
              itemStyle: {borderColor: colour('ground'), borderWidth: data.type === 'stacked_bar' ? .5 : 0}};
    // Each on the sum of those before it, the last one at the back (ECharts would stack the x of two axes of numbers).
    if (data.type === 'stacked_area') {
      const sum = one.y.map((_, i) => data.series.slice(0, index + 1).reduce((total, other) => total + (other.reference ? 0 : other.y[i]), 0));
      return {...series, type: 'line', step: 'end', symbol: 'none', lineStyle: {width: 0}, areaStyle: {color: shade, opacity: 1}, z: 2 + data.series.length - index,
              data: one.x.map((x, i) => ({value: [x, sum[i], one.y[i]]})), emphasis: {disabled: true}};
    }
    return {...series, type: 'line', showSymbol: one.y.length <= 60, symbol: 'circle', symbolSize: 6, lineStyle: {width: 2}};
  }

  function categories(data) {
    if (data.x_labels.length > 0) return data.x_labels;
    return isBar(data) ? data.series.reduce((names, s) => s.y.length > names.length ? s.y.map((_, i) => String(i)) : names, []) : [];
  }

  // Powers of two where ten would leave one or two ticks.
  function logarithmic(values) {
    const positive = values.filter(value => value > 0);
    return {type: 'log', logBase: Math.max(...positive) / Math.min(...positive) < 100 ? 2 : 10};
  }

  // "12.5 ms" of an axis "step time (ms)".
  function withUnit(data, value) {
    const unit = data.y_title.match(/\(([^()]+)\)$/);
    return typeof value === 'number' && unit ? `${short(value)} ${unit[1]}` : short(value);
  }

  // Where areas are stacked, the number of each and not the sum of those below; the highest first, as they are seen.
  function lineText(data) {
    return points => {
      const lines = points.map(point => `${point.marker}${escaped(point.seriesName)}: <b>${withUnit(data, point.value[point.value.length - 1])}</b>`);
      if (data.type === 'stacked_area') lines.reverse();
      return [`${escaped(data.x_title)}: ${short(points[0].value[0])}`, ...lines].join('<br>');
    };
  }

  function formatter(data) {
    if (data.type === 'scatter') return {formatter: pointText(data)};
    return data.type === 'stacked_area' || (data.type === 'line' && data.x_labels.length === 0) ? {formatter: lineText(data)} : {};
  }

  // About how many lines the names of the series take.
  function legendLines(data, width) {
    let lines = 1, used = 0;
    for (const one of data.series) {
      const needed = (one.name || data.y_title).length * 6.6 + 36;
      if (used > 0 && used + needed > width) { ++lines; used = 0; }
      used += needed;
    }
    return lines;
  }

  function chartOption(data, width) {
    const turned = lies(data), names = categories(data), style = axisStyle();
    const category = {type: 'category', data: names, ...style, splitLine: {show: false}, inverse: turned, boundaryGap: data.type !== 'stacked_area'};
    const x = names.length > 0 ? category
        : {...(data.x_logarithmic ? logarithmic(data.series.flatMap(one => one.x)) : {type: 'value'}), ...style, scale: data.type === 'scatter',
           ...(data.type === 'stacked_area' ? {min: 'dataMin', max: 'dataMax', axisLabel: {...style.axisLabel, showMaxLabel: false}} : {}), splitLine: {show: data.type === 'scatter', lineStyle: style.splitLine.lineStyle}};
    const y = {...(data.y_logarithmic ? logarithmic(data.series.flatMap(one => one.y)) : {type: 'value'}), ...style, axisLine: {show: false}, axisTick: {show: false}};
    const below = {name: turned ? data.y_title : data.x_title, nameLocation: 'middle', nameGap: 30};
    const several = data.series.length > 1, lines = legendLines(data, width), pages = lines > 5;
    return {
      animation: false, textStyle: {fontFamily: getComputedStyle(document.body).fontFamily},
      grid: {left: 8, right: 24, top: several ? 16 + 22 * (pages ? 1 : lines) : 12, bottom: 34, containLabel: true},
      legend: several ? {top: 0, left: 0, type: pages ? 'scroll' : 'plain', textStyle: {color: colour('text')}, pageTextStyle: {color: colour('quiet')},
                         itemWidth: 14, itemHeight: 9} : {show: false},
      tooltip: {...tooltipStyle(), trigger: data.type === 'scatter' ? 'item' : 'axis', axisPointer: {type: isBar(data) ? 'shadow' : 'line'},
                valueFormatter: value => withUnit(data, value), ...formatter(data)},
      xAxis: {...(turned ? y : x), ...below}, yAxis: turned ? category : y,
      series: data.series.map((one, i) => chartSeries(data, one, i, turned)),
    };
  }

  const pointText = data => point =>
    `${point.name ? `<b>${escaped(point.name)}</b><br>` : ''}${data.series.length > 1 ? `${escaped(point.seriesName)}<br>` : ''}` +
    `${escaped(data.x_title)}: ${short(point.value[0])}<br>${escaped(data.y_title)}: ${short(point.value[1])}`;

  // The numbers of a chart as a table, for those who cannot see it; made when it is opened.
  function valuesOf(data) {
    const names = categories(data), several = data.series.length > 1;
    const head = make('tr', {}, ...(several ? ['series'] : []).concat(data.x_title, data.y_title).map(text => make('th', {scope: 'col', textContent: text})));
    const body = make('tbody');
    for (const one of data.series) {
      one.y.forEach((y, i) => {
        const x = names.length > 0 ? names[one.x.length ? one.x[i] : i] : short(one.x[i]);
        const texts = (several ? [one.name] : []).concat(one.labels[i] ? `${x} (${one.labels[i]})` : x, short(y));
        body.append(make('tr', {}, ...texts.map(text => make('td', {textContent: text}))));
      });
    }
    return make('div', {className: 'table'}, make('table', {}, make('caption', {textContent: 'Values', className: 'unseen'}), make('thead', {}, head), body));
  }

  function startChart(figure, data) {
    const plot = figure.querySelector('.plot');
    if (lies(data)) plot.style.height = `${80 + data.x_labels.length * Math.max(22, data.type === 'bar' ? 14 * data.series.length : 0)}px`;
    if (!lies(data)) plot.before(make('p', {className: 'axis-title', textContent: data.y_title}));
    plot.setAttribute('role', 'img');
    plot.setAttribute('aria-label', figure.querySelector('figcaption').textContent);
    const details = make('details', {className: 'data'}, make('summary', {textContent: 'Values'}));
    details.addEventListener('toggle', () => { if (details.children.length === 1) details.append(valuesOf(data)); });
    figure.append(details);
    const chart = echarts.init(plot, null, {renderer: 'svg'});
    const draw = () => chart.setOption(chartOption(data, chart.getWidth()), true);
    draw();
    return {draw, chart, resize: width => { chart.resize({width: width || 'auto'}); draw(); }};
  }

  // ---- timelines -------------------------------------------------------------------------------------------------------

  // Many rectangles of one colour as one shape.
  let spansShapeKnown = false;
  function registerSpansShape() {
    if (spansShapeKnown) return;
    spansShapeKnown = true;
    echarts.graphic.registerShape('spans', echarts.graphic.extendShape({
      shape: {rects: []},
      buildPath(path, shape) {
        const r = shape.rects;
        for (let i = 0; i < r.length; i += 4) path.rect(r[i], r[i + 1], r[i + 2], r[i + 3]);
      },
    }));
  }

  // Columns of numbers to a row: starts and ends in milliseconds.
  function readRow(row, data, index) {
    const n = row.gap_ns.length, column = values => typeof values === 'number' ? new Array(n).fill(values) : values;
    const read = {...row, index, n, start: new Float64Array(n), end: new Float64Array(n), kind: column(row.kind), stage: column(row.stage),
                  microbatch: column(row.microbatch), part: column(row.part), waiting: column(row.waiting_ns), after: column(row.began_after)};
    const duration = column(row.duration_ns);
    for (let i = 0, at = 0; i < n; ++i) {
      at += row.gap_ns[i];
      read.start[i] = at / 1e6;
      at += duration[i];
      read.end[i] = at / 1e6;
    }
    read.label = `${row.stream}${data.runs.length > 1 ? `, ${data.runs[row.run]}` : ''}`;
    return read;
  }

  // The first index whose value is above `limit`, of ascending values.
  function firstAbove(values, limit) {
    let low = 0, high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] > limit) high = middle; else low = middle + 1;
    }
    return low;
  }

  class Timeline {
    constructor(figure, data) {
      registerSpansShape();
      this.figure = figure;
      this.data = data;
      this.kinds = data.kinds;
      this.rows = data.rows.map((row, i) => readRow(row, data, i));
      this.end = data.end_ns / 1e6;
      this.digits = this.end >= 1 ? 3 : 6;
      this.mergedBelow = data.merged_below_ns / 1e6;
      this.view = [0, this.end];
      this.families = [...new Set(this.rows.flatMap(row => [...new Set(row.kind), ...new Set(row.share_kind)]).map(k => this.kinds[k].family))];
      const order = this.kinds.map(kind => kind.family);
      this.families.sort((a, b) => order.indexOf(a) - order.indexOf(b));
      this.chosen = null;    // a family of the legend
      this.matches = null;   // by row: 1 where a span is found
      this.selected = null;  // {row, i}
      this.firstOfRow = [];  // index of the first span of each row in its run
      const next = data.runs.map(() => 0);
      for (const row of this.rows) {
        this.firstOfRow.push(next[row.run]);
        next[row.run] += row.n;
      }
      this.computeOnly = this.rows.length > 60;
      this.build();
      this.chart = echarts.init(this.plot, null, {renderer: 'canvas'});
      this.listen();
      this.draw();
      this.firstDrawn = performance.now();  // milliseconds since the page was asked for
    }

    // -- words

    shortName(row, i) {
      const kind = this.kinds[row.kind[i]];
      if (kind.letter) return kind.prefix + (row.several_stages ? row.stage[i] : '') + kind.letter + row.microbatch[i];
      if (kind.parts) return `${kind.prefix} ${row.part[i]}`;
      return kind.prefix + (row.several_stages && kind.family === 'optimizer' ? ` ${row.stage[i]}` : '');
    }

    words(row, i) {
      const kind = this.kinds[row.kind[i]];
      return kind.name + (kind.parts ? ` ${row.part[i]}` : '') + (row.microbatch[i] >= 0 ? ` of micro-batch ${row.microbatch[i]}` : '') +
          (row.several_stages && row.stage[i] >= 0 ? `, stage ${row.stage[i]}` : '');
    }

    ms(value) { return `${value.toFixed(this.digits)} ms`; }

    // What it began after: {row, i}, or nothing.
    after(row, i) {
      if (!row.after[i]) return null;
      const index = this.firstOfRow[row.index] + i + row.after[i];
      for (const other of this.rows) {
        const at = index - this.firstOfRow[other.index];
        if (other.run === row.run && at >= 0 && at < other.n) return {row: other, i: at};
      }
      return null;
    }

    facts(row, i) {
      const after = this.after(row, i), facts = [
        ['GPU', String(row.gpu)], ['stream', row.label], ['start', this.ms(row.start[i])], ['end', this.ms(row.end[i])],
        ['duration', this.ms(row.end[i] - row.start[i])]];
      if (row.waiting[i] > 0) facts.push(['of which waiting', `${this.ms(row.waiting[i] / 1e6)}, for the other GPU`]);
      if (after) facts.push(['waited for', `${this.words(after.row, after.i)}, GPU ${after.row.gpu}`]);
      return facts;
    }

    // -- elements

    build() {
      const {figure} = this, button = (text, label, act) => {
        const made = make('button', {type: 'button', textContent: text, title: label});
        made.setAttribute('aria-label', label);
        made.addEventListener('click', act);
        return made;
      };
      this.plot = figure.querySelector('.plot');
      this.search = make('input', {type: 'search', placeholder: 'Find tasks: F3, optimizer, stage 1'});
      this.search.setAttribute('aria-label', 'Find tasks by name');
      this.found = make('span', {className: 'found'});
      this.found.setAttribute('aria-live', 'polite');
      const tools = make('div', {className: 'tools'}, this.search, this.found, make('span', {className: 'space'}));
      if (this.computeOnly) tools.append(this.streams = button('All streams', 'show all streams', () => this.toggleStreams()));
      tools.append(button('\u2212', 'zoom out', () => this.zoom(1.6)), button('+', 'zoom in', () => this.zoom(1 / 1.6)),
                   button('\u2190', 'earlier', () => this.pan(-.3)), button('\u2192', 'later', () => this.pan(.3)),
                   button('Whole step', 'show the whole step', () => this.show(0, this.end)));
      this.legend = make('div', {className: 'legend'});
      this.legend.setAttribute('aria-label', 'Kinds of tasks');
      this.legend.setAttribute('role', 'group');
      for (const family of this.families) {
        const swatch = make('i');
        swatch.style.background = `var(--${family.replaceAll(' ', '-')})`;
        const item = make('button', {type: 'button'}, swatch, family);
        item.setAttribute('aria-pressed', 'false');
        item.addEventListener('click', () => this.choose(family));
        this.legend.append(item);
      }
      this.plot.before(tools, this.legend);
      this.told = make('p', {className: 'selected', textContent: ''});
      this.told.setAttribute('aria-live', 'polite');
      this.plot.after(this.told);
      const keys = make('p', {className: 'keys'});
      for (const [names, what] of [[['wheel'], 'zoom, once the chart is clicked (with Ctrl at once)'], [['drag', '\u2190', '\u2192'], 'pan'], [['+', '\u2212', '0'], 'zoom in, out, whole step'],
                                   [['n', 'p'], 'next, previous task'], [['\u2191', '\u2193'], 'row above, below'], [['w'], 'what it waited for'], [['Esc'], 'nothing selected']])
        keys.append(make('span', {}, ...names.flatMap(name => [make('kbd', {textContent: name}), ' ']), what));
      figure.querySelector('figcaption').after(keys);
      this.plot.tabIndex = 0;
      this.plot.setAttribute('role', 'application');
      this.plot.setAttribute('aria-label', `Timeline. ${figure.querySelector('figcaption').textContent}`);
      this.tip = make('div', {className: 'tip', hidden: true});
      this.tip.setAttribute('role', 'tooltip');
      document.body.append(this.tip);
    }

    shownRows() { return this.computeOnly ? this.rows.filter(row => row.stream === 'compute') : this.rows; }

    toggleStreams() {
      this.computeOnly = !this.computeOnly;
      this.streams.textContent = this.computeOnly ? 'All streams' : 'Compute only';
      this.draw();
    }

    // -- what is shown of the time

    // The first label of the axis is a round number only at 0.
    setView(view) {
      const atStart = this.view[0] === 0;
      this.view = view;
      if (atStart !== (view[0] === 0)) this.chart.setOption({xAxis: {axisLabel: {showMinLabel: view[0] === 0}}});
    }

    show(from, to) {
      const least = Math.max(this.end * 1e-6, 2e-5), length = Math.min(Math.max(to - from, least), this.end);
      const start = Math.min(Math.max((from + to - length) / 2, 0), this.end - length);
      this.setView([start, start + length]);
      this.chart.dispatchAction({type: 'dataZoom', batch: [0, 1].map(dataZoomIndex => ({dataZoomIndex, startValue: this.view[0], endValue: this.view[1]}))});
    }

    // Of the selected task, where it is to be seen.
    middle() {
      const [from, to] = this.view, chosen = this.selected, at = chosen ? (chosen.row.start[chosen.i] + chosen.row.end[chosen.i]) / 2 : -1;
      return at >= from && at <= to ? at : (from + to) / 2;
    }

    zoom(factor, about) {
      const [from, to] = this.view, at = about === undefined ? this.middle() : about;
      this.show(at - (at - from) * factor, at + (to - at) * factor);
    }

    pan(part) {
      const [from, to] = this.view, by = (to - from) * part;
      const moved = Math.min(Math.max(by, -from), this.end - to);
      this.show(from + moved, to + moved);
    }

    // -- drawing

    draw() {
      const rows = this.drawn = this.shownRows(), style = axisStyle();
      const narrow = this.plot.clientWidth < 560, height = Math.min(Math.max(440 / Math.max(rows.length, 1), 14), 30);
      this.plot.style.height = `${Math.round(rows.length * height) + 84}px`;
      this.shades = this.makeShades();
      const name = i => {
        const row = rows[i], first = i === 0 || rows[i - 1].gpu !== row.gpu;
        return `{gpu|${first ? `${narrow ? '' : 'GPU '}${row.gpu}` : ''}}  {stream|${narrow ? row.label.replace(', predicted', ' p').replace(', measured', ' m') : row.label}}`;
      };
      const longest = Math.max(...rows.map(row => row.label.length), 4);
      const left = narrow ? Math.min(40 + longest * 5, 130) : 62 + longest * 6.2;
      this.chart.resize();
      this.chart.setOption({
        animation: false, textStyle: {fontFamily: getComputedStyle(document.body).fontFamily},
        grid: {left, right: 18, top: 26, bottom: 48},
        xAxis: {type: 'value', min: 0, max: this.end, position: 'top', name: 'ms', nameGap: 4, ...style,
                axisLabel: {...style.axisLabel, showMaxLabel: false, showMinLabel: this.view[0] === 0, fontSize: 11}, splitLine: {show: true, lineStyle: {color: colour('line')}}},
        yAxis: {type: 'category', inverse: true, data: rows.map((_, i) => i), ...style, axisTick: {show: false}, axisLine: {show: false},
                splitLine: {show: true, interval: i => i > 0 && rows[i].gpu !== rows[i - 1].gpu, lineStyle: {color: colour('line')}},
                axisLabel: {interval: 0, formatter: (_, i) => name(i), margin: 6,
                            rich: {gpu: {color: colour('text'), fontSize: 11, fontWeight: 600}, stream: {color: colour('quiet'), fontSize: height < 16 ? 9.5 : 11}}}},
        dataZoom: [
          {type: 'inside', filterMode: 'none', zoomOnMouseWheel: false, moveOnMouseWheel: false, moveOnMouseMove: true, preventDefaultMouseMove: false,
           throttle: 16, minValueSpan: Math.max(this.end * 1e-6, 2e-5), startValue: this.view[0], endValue: this.view[1]},
          {type: 'slider', filterMode: 'none', throttle: 16, height: 18, bottom: 10, showDetail: false, brushSelect: false, showDataShadow: false,
           borderColor: colour('line'), fillerColor: 'rgba(120,150,190,.25)', handleStyle: {color: colour('ground'), borderColor: colour('strong-line')},
           moveHandleStyle: {color: colour('strong-line')}, startValue: this.view[0], endValue: this.view[1]},
        ],
        series: [
          {id: 'spans', type: 'custom', silent: true, clip: true, data: rows.map((_, i) => [0, i]), renderItem: (params, api) => this.renderRow(params, api)},
          {id: 'marks', type: 'custom', silent: true, clip: true, z: 5, data: [[0, 0]], renderItem: (params, api) => this.renderMarks(params, api)},
        ],
      }, true);
    }

    // By family: of even and odd micro-batches, so that neighbours can be told apart; of what waits or is not searched for.
    makeShades() {
      const shades = new Map();
      for (const family of this.families) {
        const base = colour(family), [r, g, b] = base.match(/\d+/g).map(Number);
        const mixed = [r, g, b].map(c => Math.round(c + (255 - c) * .24));
        const ink = rgb => (.299 * rgb[0] + .587 * rgb[1] + .114 * rgb[2]) > 150 ? '#14171c' : '#ffffff';
        shades.set(family, {even: base, odd: `rgb(${mixed.join(',')})`, pale: `rgba(${r},${g},${b},.3)`, dim: `rgba(${r},${g},${b},.14)`,
                            ink: {even: ink([r, g, b]), odd: ink(mixed)}});
      }
      return shades;
    }

    isLit(row, i) {
      if (this.chosen && this.kinds[row.kind[i]].family !== this.chosen) return false;
      return !this.matches || this.matches[row.index][i] === 1;
    }

    renderRow(params, api) {
      const row = this.drawn[api.value(1)], area = params.coordSys;
      const zero = api.coord([0, api.value(1)]), scale = (api.coord([this.end, api.value(1)])[0] - zero[0]) / this.end;
      const band = api.size([0, 1])[1], height = Math.max(band - Math.min(4, band * .22), 2);
      const canvas = {row, x0: zero[0], scale, left: area.x, right: area.x + area.width, y: zero[1] - height / 2, height, rects: new Map(), texts: [],
                      shares: null};
      this.addShares(canvas);
      this.addSpans(canvas);
      this.addColumns(canvas);
      const children = [];
      for (const [fill, rects] of canvas.rects) children.push({type: 'spans', shape: {rects}, style: {fill}, silent: true});
      return {type: 'group', children: children.concat(canvas.texts)};
    }

    addRect(canvas, fill, x, y, width, height) {
      const from = Math.max(x, canvas.left - 2), to = Math.min(x + width, canvas.right + 2);
      if (to <= from) return;
      if (!canvas.rects.has(fill)) canvas.rects.set(fill, []);
      canvas.rects.get(fill).push(from, y, to - from, height);
    }

    // Of what is at most a pixel wide: how much of the one or two columns of pixels that it is in a family takes.
    addToColumns(canvas, x, width, family, lit) {
      const at = x - canvas.left, column = Math.floor(at), columns = Math.ceil(canvas.right - canvas.left);
      const second = Math.max(at + width - column - 1, 0);
      if (!canvas.shares) canvas.shares = new Float32Array(columns * this.families.length * 2);
      const add = (c, part) => {
        if (c >= 0 && c < columns) canvas.shares[(c * this.families.length + this.families.indexOf(family)) * 2 + (lit ? 0 : 1)] += part;
      };
      add(column, width - second);
      if (second > 0) add(column + 1, second);
    }

    addColumns(canvas) {
      if (!canvas.shares) return;
      const families = this.families.length;
      for (let column = 0; column * families * 2 < canvas.shares.length; ++column) {
        let top = canvas.y + canvas.height;
        for (let k = 0; k < families * 2; ++k) {
          const share = canvas.shares[column * families * 2 + k];
          if (share <= 0) continue;
          const height = Math.min(share * canvas.height, top - canvas.y), shade = this.shades.get(this.families[k >> 1]);
          top -= height;
          this.addRect(canvas, k % 2 ? shade.dim : shade.even, canvas.left + column, top, 1, height);
        }
      }
    }

    // What the page has of tasks that were merged.
    addShares(canvas) {
      const {row, scale, x0} = canvas, width = this.mergedBelow * scale;
      let interval = -1, top = 0;
      for (let i = firstAbove(row.share_interval, this.view[0] / this.mergedBelow - 1); i < row.share_interval.length; ++i) {
        const x = x0 + row.share_interval[i] * width;
        if (x > canvas.right) break;
        const family = this.kinds[row.share_kind[i]].family, part = row.share_ns[i] / 1e6 / this.mergedBelow;
        const lit = (!this.chosen || this.chosen === family) && !this.matches;
        if (width < 1) {
          this.addToColumns(canvas, x, part * width, family, lit);
          continue;
        }
        if (row.share_interval[i] !== interval) top = canvas.y + canvas.height;
        interval = row.share_interval[i];
        const height = part * canvas.height, shade = this.shades.get(family);
        top -= height;
        this.addRect(canvas, lit ? shade.even : shade.dim, x, top, width, height);
      }
    }

    // What is shorter than a pixel is a line if it stands alone, else a part of its column of pixels.
    addSpans(canvas) {
      const {row, scale, x0, y, height} = canvas;
      for (let i = firstAbove(row.end, this.view[0]); i < row.n && row.start[i] <= this.view[1]; ++i) {
        const x = x0 + row.start[i] * scale, width = (row.end[i] - row.start[i]) * scale;
        const family = this.kinds[row.kind[i]].family, shade = this.shades.get(family), lit = this.isLit(row, i);
        const alone = (i === 0 || (row.start[i] - row.end[i - 1]) * scale > 1) && (i + 1 === row.n || (row.start[i + 1] - row.end[i]) * scale > 1);
        if (width < 1 && !alone && !(lit && this.matches)) {
          this.addToColumns(canvas, x, width, family, lit);
          continue;
        }
        const tone = row.microbatch[i] % 2 === 1 ? 'odd' : 'even', gap = width > 4 ? .8 : 0;
        const waiting = row.waiting[i] / 1e6 * scale;
        if (waiting > 0) this.addRect(canvas, lit ? shade.pale : shade.dim, x, y, waiting, height);
        this.addRect(canvas, lit ? shade[tone] : shade.dim, x + waiting, y, Math.max(width - waiting - gap, 1), height);
        if (lit && height >= 10) this.addText(canvas, i, x + waiting, width - waiting, shade.ink[tone]);
      }
    }

    addText(canvas, i, x, width, fill) {
      const text = this.shortName(canvas.row, i), from = Math.max(x, canvas.left), room = Math.min(x + width, canvas.right) - from;
      if (room < text.length * 6.4 + 5 || canvas.texts.length > 400) return;
      canvas.texts.push({type: 'text', silent: true, x: from + room / 2, y: canvas.y + canvas.height / 2,
                         style: {text, fill, fontSize: Math.min(11, canvas.height - 2), align: 'center', verticalAlign: 'middle'}});
    }

    // A frame about the selected task, and a line from what it waited for.
    renderMarks(params, api) {
      if (!this.selected) return;
      const place = (row, ms) => api.coord([ms, this.drawn.indexOf(row)]);
      const {row, i} = this.selected, band = api.size([0, 1])[1], after = this.after(row, i), children = [];
      if (!this.drawn.includes(row)) return;
      const from = place(row, row.start[i]), to = place(row, row.end[i]), ink = colour('text');
      children.push({type: 'rect', shape: {x: from[0] - 1, y: from[1] - band / 2 + 1, width: Math.max(to[0] - from[0], 2) + 1, height: band - 2, r: 2},
                     style: {fill: 'none', stroke: ink, lineWidth: 2}});
      if (after && this.drawn.includes(after.row)) {
        const cause = place(after.row, after.row.end[after.i]);
        children.push({type: 'polyline', shape: {points: [cause, [(cause[0] + from[0]) / 2, cause[1]], [(cause[0] + from[0]) / 2, from[1]], from]},
                       style: {fill: 'none', stroke: ink, lineWidth: 1.5, lineDash: [4, 3]}},
                      {type: 'circle', shape: {cx: cause[0], cy: cause[1], r: 3}, style: {fill: ink}});
      }
      return {type: 'group', children};
    }

    // -- hover, selection, search

    // The task at a place of the chart, or the one within two pixels: {row, i}; of merged ones {row, interval}.
    at(x, y) {
      if (!this.chart.containPixel('grid', [x, y])) return null;
      const [ms, r] = this.chart.convertFromPixel('grid', [x, y]), row = this.drawn[r];
      if (!row) return null;
      const slack = (this.view[1] - this.view[0]) / Math.max(this.plot.clientWidth, 1) * 2;
      const i = firstAbove(row.end, ms);
      if (i < row.n && row.start[i] <= ms) return {row, i};
      if (row.share_interval.length > 0) {
        const interval = Math.floor(ms / this.mergedBelow), k = firstAbove(row.share_interval, interval - 1);
        if (row.share_interval[k] === interval) return {row, interval, first: k};
      }
      if (i < row.n && row.start[i] - ms <= slack) return {row, i};
      if (i > 0 && ms - row.end[i - 1] <= slack) return {row, i: i - 1};
      return null;
    }

    tipContent(hit) {
      const {row} = hit, table = make('table');
      let title, facts;
      if (hit.i !== undefined) {
        title = `${this.shortName(row, hit.i)}: ${this.words(row, hit.i)}`;
        facts = this.facts(row, hit.i);
      } else {
        title = `short tasks, merged`;
        facts = [['GPU', String(row.gpu)], ['stream', row.label], ['from', this.ms(hit.interval * this.mergedBelow)], ['to', this.ms((hit.interval + 1) * this.mergedBelow)]];
        for (let k = hit.first; row.share_interval[k] === hit.interval; ++k)
          facts.push([this.kinds[row.share_kind[k]].name, `${(row.share_ns[k] / this.data.merged_below_ns * 100).toFixed(1)} % of it`]);
      }
      for (const [name, value] of facts) table.append(make('tr', {}, make('td', {textContent: name}), make('td', {textContent: value})));
      return [make('b', {textContent: title}), table];
    }

    hover(event) {
      const hit = this.at(event.offsetX, event.offsetY);
      this.tip.hidden = !hit;
      if (!hit) return;
      this.tip.replaceChildren(...this.tipContent(hit));
      const box = this.plot.getBoundingClientRect(), x = box.left + event.offsetX, y = box.top + event.offsetY;
      const wide = this.tip.offsetWidth, high = this.tip.offsetHeight;
      this.tip.style.left = `${Math.max(4, x + 16 + wide > innerWidth ? x - wide - 12 : x + 16)}px`;
      this.tip.style.top = `${Math.max(4, y + 16 + high > innerHeight ? y - high - 12 : y + 16)}px`;
    }

    select(hit) {
      this.selected = hit && hit.i !== undefined ? hit : null;
      this.tip.hidden = true;
      this.told.replaceChildren();
      if (this.selected) {
        const {row, i} = this.selected, after = this.after(row, i);
        if (row.end[i] < this.view[0] || row.start[i] > this.view[1]) {
          const half = (this.view[1] - this.view[0]) / 2, middle = (row.start[i] + row.end[i]) / 2;
          this.show(middle - half, middle + half);
        }
        this.told.append(make('b', {textContent: this.words(row, i)}),
                         `, GPU ${row.gpu}, ${row.label}: ${this.ms(row.start[i])} to ${this.ms(row.end[i])} (${this.ms(row.end[i] - row.start[i])})`);
        if (after) {
          const link = make('button', {type: 'button', textContent: `${this.words(after.row, after.i)}, GPU ${after.row.gpu}`});
          link.addEventListener('click', () => this.select(after));
          this.told.append('; waited for ', link);
        }
      }
      this.redrawSpans();
    }

    redrawSpans() {
      this.chart.setOption({series: [{id: 'spans', renderItem: (params, api) => this.renderRow(params, api)},
                                     {id: 'marks', renderItem: (params, api) => this.renderMarks(params, api)}]});
    }

    choose(family) {
      this.chosen = this.chosen === family ? null : family;
      [...this.legend.children].forEach((item, k) => item.setAttribute('aria-pressed', String(this.families[k] === this.chosen)));
      this.redrawSpans();
    }

    // A name as on the chart ("1B0"; "F3" is that of any stage) is meant exactly; anything else is a part of what the
    // tip says, where a number at its end is a whole one.
    find(text) {
      const wanted = text.trim().toLowerCase(), exact = /^\d*[a-z]\d+$/.test(wanted);
      const isNamed = name => name === wanted || name.endsWith(` ${wanted}`);
      const part = new RegExp(wanted.replace(/[^\w\s]/g, '\\$&') + (/\d$/.test(wanted) ? '(?!\\d)' : ''));
      this.matches = wanted === '' ? null : this.rows.map(row => {
        const found = new Uint8Array(row.n), where = ` gpu ${row.gpu} ${row.label}`;
        for (let i = 0; i < row.n; ++i) {
          const name = this.shortName(row, i).toLowerCase(), stage = row.stage[i] >= 0 ? ` stage ${row.stage[i]}` : '';
          found[i] = (exact ? isNamed(name) || isNamed(name.replace(/\b\d+(?=[a-z]\d)/, '')) : part.test(`${name} ${this.words(row, i)}${stage}${where}`.toLowerCase())) ? 1 : 0;
        }
        return found;
      });
      const count = this.matches ? this.matches.reduce((sum, found) => sum + found.reduce((a, b) => a + b, 0), 0) : 0;
      this.found.textContent = this.matches ? `${count.toLocaleString('en')} ${count === 1 ? 'task' : 'tasks'} found` : '';
      this.redrawSpans();
    }

    nextFound() {
      if (!this.matches) return;
      const all = this.drawn.flatMap(row => [...this.matches[row.index].keys()].filter(i => this.matches[row.index][i]).map(i => ({row, i})));
      all.sort((a, b) => a.row.start[a.i] - b.row.start[b.i]);
      if (all.length === 0) return;
      const now = this.selected ? all.findIndex(one => one.row === this.selected.row && one.i === this.selected.i) : -1;
      this.select(all[(now + 1) % all.length]);
    }

    // The next task of the row, or the one of a row above or below that is about then.
    step(along, rows) {
      if (!this.selected) {
        const row = this.drawn.find(one => one.n > 0);
        return row && this.select({row, i: Math.min(firstAbove(row.end, this.view[0]), row.n - 1)});
      }
      const {row, i} = this.selected;
      if (along) return this.select({row, i: Math.min(Math.max(i + along, 0), row.n - 1)});
      for (let r = this.drawn.indexOf(row) + rows; r >= 0 && r < this.drawn.length; r += rows) {
        const other = this.drawn[r];
        if (other.n > 0) return this.select({row: other, i: Math.min(firstAbove(other.end, row.start[i]), other.n - 1)});
      }
      return undefined;
    }

    listen() {
      const keys = {
        '+': () => this.zoom(1 / 1.6), '=': () => this.zoom(1 / 1.6), '-': () => this.zoom(1.6), '0': () => this.show(0, this.end),
        ArrowLeft: () => this.pan(-.2), ArrowRight: () => this.pan(.2), ArrowUp: () => this.step(0, -1), ArrowDown: () => this.step(0, 1),
        n: () => this.step(1, 0), p: () => this.step(-1, 0), Escape: () => this.select(null),
        w: () => { const after = this.selected && this.after(this.selected.row, this.selected.i); if (after) this.select(after); },
      };
      this.plot.addEventListener('keydown', event => {
        if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
        event.preventDefault();
        keys[event.key]();
      });
      // Before ECharts sees it, which keeps the wheel to itself: else the page scrolls.
      this.plot.addEventListener('wheel', event => {
        event.stopPropagation();
        if (document.activeElement !== this.plot && !event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        const box = this.plot.getBoundingClientRect(), [ms] = this.chart.convertFromPixel('grid', [event.clientX - box.left, event.clientY - box.top]);
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX / 600);
        else this.zoom(Math.exp(Math.min(Math.max(event.deltaY, -300), 300) / 300), Math.min(Math.max(ms, this.view[0]), this.view[1]));
      }, {passive: false, capture: true});
      this.plot.addEventListener('mouseleave', () => { this.tip.hidden = true; });
      const surface = this.chart.getZr();
      surface.on('mousemove', event => this.hover(event));
      surface.on('click', event => { this.plot.focus({preventScroll: true}); this.select(this.at(event.offsetX, event.offsetY)); });
      surface.on('dblclick', event => {
        const hit = this.at(event.offsetX, event.offsetY);
        if (hit && hit.i !== undefined) this.show(hit.row.start[hit.i] - .2 * (hit.row.end[hit.i] - hit.row.start[hit.i]), hit.row.end[hit.i] + .2 * (hit.row.end[hit.i] - hit.row.start[hit.i]));
      });
      this.chart.on('datazoom', () => {
        const zoom = this.chart.getOption().dataZoom[0];
        this.setView([Math.max(0, zoom.startValue), Math.min(this.end, zoom.endValue)]);
      });
      let waiting = 0;
      this.search.addEventListener('input', () => {
        clearTimeout(waiting);
        waiting = setTimeout(() => this.find(this.search.value), 120);
      });
      this.search.addEventListener('keydown', event => {
        if (event.key === 'Enter') { this.find(this.search.value); this.nextFound(); }
        if (event.key === 'Escape') { this.search.value = ''; this.find(''); }
      });
    }

    resize(width) {
      this.plot.style.width = width ? `${width}px` : '';
      this.draw();
    }
  }

  // ---- all of it -------------------------------------------------------------------------------------------------------

  function startFigure(figure) {
    if (figure.drawn) return;
    const data = JSON.parse(figure.querySelector('script').textContent);
    figure.drawn = data.type === 'timeline' ? new Timeline(figure, data) : startChart(figure, data);
    figures.push(figure.drawn);
  }

  function start() {
    document.body.append(probe);
    startTheme();
    document.querySelectorAll('main .table > table').forEach(startTable);
    const all = [...document.querySelectorAll('figure')];
    // Figures are drawn when they come near the window; of a book with forty, the first ones.
    const near = new IntersectionObserver(entries => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        near.unobserve(entry.target);
        startFigure(entry.target);
      }
    }, {rootMargin: '500px'});
    all.forEach(figure => near.observe(figure));
    if (innerWidth < 1152) document.querySelectorAll('.contents details').forEach(details => { details.open = false; });
    let waiting = 0, width = innerWidth;
    addEventListener('resize', () => {
      if (innerWidth === width || printing) return;
      width = innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(() => figures.forEach(figure => figure.resize()), 80);
    });
    // Paper: light, all figures drawn, as wide as a page of A4.
    let theme;
    addEventListener('beforeprint', () => {
      printing = true;
      theme = root.dataset.theme;
      root.dataset.theme = 'light';
      all.forEach(startFigure);
      figures.forEach(figure => figure.resize(640));
    });
    addEventListener('afterprint', () => {
      printing = false;
      if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
      figures.forEach(figure => figure.resize());
    });
  }
  start();
})();
