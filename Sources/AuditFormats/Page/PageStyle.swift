/// The style of the page. Its policy allows this text by its digest, so no element may have a `style`
/// attribute.
///
/// Both schemes keep a contrast of 4.5 for text and 3 for shapes (WCAG 2.2, 1.4.3 and 1.4.11). The series
/// differ in lightness as well as in hue, and have a gap between them, so that they can be told apart
/// without seeing colours; what a colour says is always written too.
enum PageStyle {
    static let text = colours + layout + charts + media

    private static let colours = """
        :root{color-scheme:light dark;--bg:#f4f6f9;--card:#fff;--ink:#18202f;--soft:#505b6e;--line:#d5dbe5;\
        --edge:#8a94a6;--link:#0a58a8;\
        --high:#b3211a;--high-bg:#fdecea;--medium:#8f4700;--medium-bg:#fff1e0;--low:#0a58a8;--low-bg:#e7f0fb;\
        --note:#505b6e;--note-bg:#eceff4;--ok:#0b6848;--ok-bg:#e3f4ec;--track:#e9edf3;\
        --stale:#c2410c;--living:#0b7a57;--outcome:#2456a8;\
        --s0:#2456a8;--s1:#c65102;--s2:#0f8a68;--s3:#a83279;--s4:#7d6b00;--s5:#6a4fc0;--s6:#6b7585}
        @media screen and (prefers-color-scheme:dark){:root{--bg:#0f131a;--card:#181e28;--ink:#e8ecf3;--soft:#a9b3c3;\
        --line:#313a49;--edge:#7d889b;--link:#82b8f7;\
        --high:#ff9a90;--high-bg:#3b1715;--medium:#f7b267;--medium-bg:#362308;--low:#82b8f7;--low-bg:#11294a;\
        --note:#b4bdcc;--note-bg:#252d3a;--ok:#66d3a6;--ok-bg:#0c3325;--track:#28303d;\
        --stale:#f58b57;--living:#3fc393;--outcome:#79aef5;\
        --s0:#79aef5;--s1:#f59a4a;--s2:#3fc393;--s3:#ea8bc4;--s4:#d3c14f;--s5:#b3a1f7;--s6:#9aa5b6}}

        """

    private static let layout = """
        *{box-sizing:border-box}
        html{-webkit-text-size-adjust:100%}
        body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,\
        "Helvetica Neue","Noto Sans","DejaVu Sans",sans-serif;overflow-wrap:anywhere}
        .wrap{max-width:70rem;margin:0 auto;padding:0 1.25rem}
        h1,h2,h3,p,ul,ol,dl,dd{margin:0;padding:0}
        h2{font-size:1.25rem;line-height:1.3;margin:2.5rem 0 .9rem}
        h3{font-size:1rem;line-height:1.4}
        code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.92em}
        :focus-visible{outline:3px solid var(--link);outline-offset:2px}
        .hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
        .verdict{padding:1.75rem 0 1.5rem;border-top:8px solid}
        .verdict.ill{background:var(--high-bg);border-color:var(--high)}
        .verdict.well{background:var(--ok-bg);border-color:var(--ok)}
        .kicker{font-size:.875rem;color:var(--soft);font-weight:600}
        h1{display:flex;align-items:center;gap:.75rem;font-size:clamp(2.1rem,6vw,3.1rem);line-height:1.15;\
        letter-spacing:-.02em;margin:.15rem 0 .5rem}
        .ill h1{color:var(--high)}.well h1{color:var(--ok)}
        .sign{width:1em;height:1em;flex:none}
        .sign circle,.sign .fill{fill:currentColor;stroke:none}
        .sign path{fill:none;stroke:var(--card);stroke-width:2.6;stroke-linecap:round;stroke-linejoin:round}
        .lead{font-size:clamp(1.1rem,2.6vw,1.35rem);line-height:1.4;max-width:48rem;font-weight:500}
        .meta{display:flex;flex-wrap:wrap;gap:.2rem 1.4rem;margin-top:.9rem;font-size:.875rem;color:var(--soft)}
        .meta strong{color:var(--ink)}
        .findings{list-style:none;display:grid;gap:.75rem}
        .finding{background:var(--card);border:1px solid var(--line);border-left:6px solid;border-radius:8px;\
        padding:.85rem 1.1rem .8rem}
        .finding.high{border-left-color:var(--high)}.finding.medium{border-left-color:var(--medium)}
        .finding.low{border-left-color:var(--low)}.finding.note{border-left-color:var(--edge)}
        .finding.ok{border-left-color:var(--ok)}
        .finding h3{display:flex;align-items:baseline;gap:.6rem;font-size:1.06rem}
        .object{font-size:.9375rem;color:var(--soft);margin-top:.1rem}
        .badge{display:inline-block;font-size:.8125rem;line-height:1.4;font-weight:700;padding:.05rem .55rem;\
        border-radius:99px;border:1px solid currentColor}
        .badge.high{color:var(--high);background:var(--high-bg)}.badge.medium{color:var(--medium);background:var(--medium-bg)}
        .badge.low{color:var(--low);background:var(--low-bg)}.badge.note{color:var(--note);background:var(--note-bg)}
        .badge.ok{color:var(--ok);background:var(--ok-bg)}
        .cause,.cure{margin-top:.3rem;max-width:56rem;display:grid;grid-template-columns:6.2rem 1fr}
        .cause{color:var(--soft)}
        .cause b{color:var(--ink)}
        .cure b{color:var(--link)}
        .rule,.more,.line,.none{font-size:.875rem;color:var(--soft)}
        .rule{margin-top:.3rem}
        .more{margin-top:.6rem}
        .calm{font-size:1.06rem}
        .gaps{margin-top:1rem;padding:.85rem 1.1rem;border:1px dashed var(--edge);border-radius:8px}
        .gaps ul{padding-left:1.2rem;margin-top:.25rem}
        .tiles{display:flex;flex-wrap:wrap;gap:.75rem}
        .tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.7rem 1rem .8rem;\
        flex:1 1 12rem}
        .tile dt{font-size:.875rem;color:var(--soft)}
        .large{display:block;font-size:1.6rem;line-height:1.25;font-weight:700;letter-spacing:-.01em;\
        font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
        .long{font-size:1.2rem;line-height:1.65}
        .small{font-size:.875rem;color:var(--soft)}
        .fold{background:var(--card);border:1px solid var(--line);border-radius:8px;margin-top:.6rem}
        summary{cursor:pointer}
        .fold>summary{padding:.7rem 1.1rem}
        .fold>summary h3{display:inline}
        .fold>:not(summary){margin:.25rem 1.1rem 1.1rem}
        .fold .finding{background:none}
        .tables{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:1.5rem 2rem;\
        align-items:start}
        .scroll{overflow-x:auto;max-width:100%;min-width:0}
        section>.scroll{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.4rem 1.1rem .8rem}
        table{border-collapse:collapse;width:100%;font-size:.9375rem;font-variant-numeric:tabular-nums}
        caption{text-align:left;font-weight:600;padding:.4rem 0}
        th,td{text-align:left;vertical-align:top;padding:.35rem .9rem .35rem 0;border-top:1px solid var(--line);\
        unicode-bidi:isolate;overflow-wrap:break-word;min-width:4.5rem}
        th:last-child,td:last-child{padding-right:0}
        thead th{font-size:.8125rem;color:var(--soft);border-top:0;vertical-align:bottom}
        tbody th{font-weight:400;max-width:20rem}
        td.t{max-width:24rem}
        .n+.t{padding-left:.9rem}
        section>.scroll caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
        .n{text-align:right;white-space:nowrap}
        thead .n{white-space:normal}
        .about{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:.5rem 2rem;\
        padding-bottom:3rem;font-size:.9375rem}
        .about dt{font-size:.8125rem;color:var(--soft)}

        """

    private static let charts = """
        .charts{display:flex;flex-wrap:wrap;gap:.75rem;margin-top:.75rem}
        .charts:not(:has(.card)){display:none}
        .card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.9rem 1.1rem;\
        min-width:0;flex:1 1 min(100%,19rem)}
        .wide{flex-basis:100%}
        .card svg{display:block;margin:.5rem 0 .6rem;overflow:visible;forced-color-adjust:none}
        .card details{font-size:.9375rem}
        .card details>summary{color:var(--link);font-size:.875rem}
        .card caption{display:none}
        .card svg text{fill:var(--ink);font-size:14px;font-variant-numeric:tabular-nums}
        .card svg .n,.card svg .mark,.card svg .end{text-anchor:end}
        .card svg .middle{text-anchor:middle}
        .columns{padding-left:3.2rem}
        .card .columns text{fill:var(--soft);font-size:13px}
        .grid{stroke:var(--line);stroke-width:1}
        .track{fill:var(--track)}
        .c-stale .bar{fill:var(--stale)}.c-living .bar{fill:var(--living)}.c-outcome .bar{fill:var(--outcome)}
        .keys{list-style:none;display:flex;flex-wrap:wrap;gap:.15rem 1.1rem;margin-top:.35rem;font-size:.875rem}
        .key{display:inline-block;width:.8rem;height:.8rem;border-radius:3px;margin-right:.4rem;vertical-align:-.05rem;\
        forced-color-adjust:none}
        .columns rect{stroke:var(--card);stroke-width:1}
        .s0{fill:var(--s0);background:var(--s0)}.s1{fill:var(--s1);background:var(--s1)}
        .s2{fill:var(--s2);background:var(--s2)}.s3{fill:var(--s3);background:var(--s3)}
        .s4{fill:var(--s4);background:var(--s4)}.s5{fill:var(--s5);background:var(--s5)}
        .s6{fill:var(--s6);background:var(--s6)}

        """

    private static let media = """
        @media (max-width:30rem){.wrap{padding:0 .9rem}.large{font-size:1.3rem}.long{font-size:1.02rem;line-height:1.6}.finding h3{display:block}\
        .tile{padding:.6rem .75rem;flex-basis:40%}.cause,.cure{display:block}.cause b,.cure b{display:block}.columns .middle{display:none}.finding{padding:.75rem .85rem}}
        @page{margin:15mm}
        @media print{:root{--bg:#fff}body{font-size:10pt}.verdict,.badge,.key,.card svg{print-color-adjust:exact;\
        -webkit-print-color-adjust:exact}.finding,.card,.tile,tr{break-inside:avoid}h2,h3,caption{break-after:avoid}\
        .scroll{overflow:visible}details::details-content{content-visibility:visible;block-size:auto}\
        .wrap{max-width:none;padding:0}}
        """
}
