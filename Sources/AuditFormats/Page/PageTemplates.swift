/// The templates by name. None has an unescaped value (`{{{`), a script or an address.
enum PageTemplates {
    static let all = [
        "page": page, "figures": figures, "rest": rest, "finding": finding, "table": table,
        "charts": charts, "bars": bars, "columns": columns, "style": PageStyle.text,
    ]

    private static let page = #"""
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8"/>
        <meta http-equiv="Content-Security-Policy" content="{{policy}}"/>
        <meta name="viewport" content="width=device-width, initial-scale=1"/>
        <meta name="color-scheme" content="light dark"/>
        <meta name="referrer" content="no-referrer"/>
        <title>{{word}}: Pushsweep audit to {{until}}</title>
        <style>{{>style}}</style>
        </head>
        <body>
        <header class="verdict {{state}}"><div class="wrap">
        <p class="kicker">Pushsweep audit</p>
        <h1><svg class="sign" viewBox="0 0 24 24" aria-hidden="true">
        {{#isWell}}<circle cx="12" cy="12" r="11"/><path d="M6.5 12.5l3.6 3.6 7.4-8"/>{{/isWell}}
        {{^isWell}}<path class="fill" d="M7.4 1h9.2L23 7.4v9.2L16.6 23H7.4L1 16.6V7.4z"/><path d="M12 6v7.5M12 17.4v.2"/>{{/isWell}}
        </svg>{{word}}</h1>
        <p class="lead">{{sentence}}</p>
        <p class="meta">{{#counts}}<strong>Problems: {{.}}</strong>{{/counts}}
        <span>Period {{since}} to {{until}}</span>
        <span>Version {{version}}</span>
        <span>Settings digest <code>{{digest}}</code></span></p>
        </div></header>
        <main class="wrap">
        <section aria-labelledby="to-do">
        <h2 id="to-do">What to do</h2>
        {{#calm}}<p class="calm">{{.}}</p>{{/calm}}
        {{#problems}}
        <ol class="findings">
        {{#items}}
        {{>finding}}
        {{/items}}
        </ol>
        {{#more}}<p class="more">{{.}}</p>{{/more}}
        {{/problems}}
        {{#gaps}}
        <div class="gaps"><h3>{{heading}} ({{total}})</h3>
        <ul>{{#items}}<li>{{.}}</li>{{/items}}</ul>
        {{#more}}<p class="more">{{.}}</p>{{/more}}
        </div>
        {{/gaps}}
        </section>
        {{>figures}}
        {{>rest}}
        </main>
        </body>
        </html>

        """#

    private static let finding = #"""
        <li class="finding {{severity}}"><h3><span class="badge {{severity}}">{{severity}}</span> <bdi>{{summary}}</bdi></h3>
        <p class="object"><bdi>{{object}}</bdi></p>
        {{#causes}}<p class="cause"><b>Why</b> {{.}}</p>{{/causes}}
        {{#cures}}<p class="cure"><b>Next step</b> {{.}}</p>{{/cures}}
        <p class="rule">Rule {{rule}}</p></li>

        """#

    private static let figures = #"""
        <section aria-labelledby="figures">
        <h2 id="figures">Figures</h2>
        <dl class="tiles">{{#tiles}}<div class="tile"><dt>{{label}}</dt><dd><span class="{{size}}">{{figure}}</span> <span class="small">{{remark}}</span></dd></div>{{/tiles}}</dl>
        {{>charts}}
        </section>
        {{#unchanged}}<section aria-labelledby="changes"><h2 id="changes">Changes since the earlier report</h2><p>{{.}}</p></section>{{/unchanged}}
        {{#changes}}<section aria-labelledby="changes"><h2 id="changes">Changes since the earlier report</h2>{{>table}}</section>{{/changes}}
        <section aria-labelledby="apps">
        <h2 id="apps">Apps</h2>
        {{^overview}}<p>The settings name no app.</p>{{/overview}}
        {{#overview}}{{>table}}{{/overview}}
        {{#sections}}
        <details class="fold"><summary><h3>{{name}}</h3> <span class="line">{{line}}</span>{{#badges}} <span class="badge {{.}}">{{.}}</span>{{/badges}}</summary>
        {{>charts}}
        <div class="tables">
        {{#tables}}{{>table}}{{/tables}}
        </div>
        </details>
        {{/sections}}
        {{#moreSections}}<p class="more">{{.}}</p>{{/moreSections}}
        </section>

        """#

    private static let charts = #"""
        <div class="charts">
        {{#columnCharts}}
        {{>columns}}
        {{/columnCharts}}
        {{#barCharts}}
        {{>bars}}
        {{/barCharts}}
        </div>

        """#

    private static let rest = #"""
        <section aria-labelledby="rest">
        <h2 id="rest">The rest</h2>
        {{#well}}<details class="fold"><summary><h3>{{heading}}</h3> <span class="line">{{total}}</span></summary>
        <ul class="findings">{{#items}}{{>finding}}{{/items}}</ul>{{#more}}<p class="more">{{.}}</p>{{/more}}</details>{{/well}}
        {{#notes}}<details class="fold"><summary><h3>{{heading}}</h3> <span class="line">{{total}}</span></summary>
        <ul class="findings">{{#items}}{{>finding}}{{/items}}</ul>{{#more}}<p class="more">{{.}}</p>{{/more}}</details>{{/notes}}
        <details class="fold"><summary><h3>Runs, holds and quarantine</h3></summary>
        <div class="tables">{{#operations}}{{>table}}{{/operations}}</div></details>
        </section>
        <section aria-labelledby="about"><h2 id="about">About this report</h2>
        <dl class="about">{{#particulars}}<div><dt>{{label}}</dt><dd>{{value}}</dd></div>{{/particulars}}</dl>
        </section>

        """#

    private static let table = #"""
        <div class="scroll" role="group" tabindex="0" aria-label="{{caption}}"><table><caption>{{caption}}</caption>
        <thead><tr>{{#columns}}<th scope="col" class="{{kind}}">{{heading}}</th>{{/columns}}</tr></thead>
        <tbody>{{#rows}}<tr><th scope="row">{{name}}</th>{{#cells}}<td class="{{kind}}">{{cell}}</td>{{/cells}}</tr>
        {{/rows}}</tbody></table>{{#remarks}}<p class="more">{{.}}</p>{{/remarks}}</div>

        """#

    private static let bars = #"""
        <div class="card {{colour}}"><h3>{{title}}</h3>
        {{#empty}}<p class="none">{{.}}</p>{{/empty}}
        {{^empty}}
        <p class="line">{{lead}}</p>
        <svg class="bars" role="img" aria-labelledby="{{id}}-t" aria-describedby="{{id}}-d" width="100%" height="{{height}}"><title id="{{id}}-t">{{title}}</title><desc id="{{id}}-d">{{description}}</desc>
        {{#bars}}<text x="0" y="{{textY}}">{{label}}</text><text class="n" x="100%" y="{{textY}}">{{figure}}</text><rect class="track" x="0" y="{{barY}}" width="100%" height="8" rx="4"/><rect class="bar" x="0" y="{{barY}}" width="{{width}}%" height="8" rx="4"/>
        {{/bars}}</svg>
        <details><summary>Figures<span class="hidden">: {{title}}</span></summary>{{#tables}}{{>table}}{{/tables}}</details>
        {{/empty}}
        </div>

        """#

    private static let columns = #"""
        <div class="card wide"><h3>{{title}}</h3>
        {{#empty}}<p class="none">{{.}}</p>{{/empty}}
        {{^empty}}
        <p class="line">{{lead}}</p>
        <ul class="keys">{{#keys}}<li><span class="key s{{series}}"></span><bdi>{{source}}</bdi> <b>{{total}}</b></li>{{/keys}}</ul>
        <svg class="columns" role="img" aria-labelledby="{{id}}-t" aria-describedby="{{id}}-d" width="100%" height="200"><title id="{{id}}-t">{{title}}</title><desc id="{{id}}-d">{{description}}</desc>
        {{#grid}}<line class="grid" x1="0" x2="100%" y1="{{y}}" y2="{{y}}"/><text class="mark" x="-8" y="{{textY}}">{{mark}}</text>{{/grid}}
        {{#columns}}<g><title>{{hint}}</title>{{#layers}}<rect class="s{{series}}" x="{{x}}%" y="{{y}}" width="{{width}}%" height="{{height}}"/>{{/layers}}</g>
        {{/columns}}{{#axis}}<text class="{{anchor}}" x="{{x}}%" y="192">{{text}}</text>{{/axis}}</svg>
        <details><summary>Figures<span class="hidden">: {{title}}</span></summary>{{#tables}}{{>table}}{{/tables}}</details>
        {{/empty}}
        </div>

        """#
}
