/// The page's colours and its overview, served as `/page.css`.
enum PageStyle {
    static let text = #"""
        :root {
            color-scheme: light dark;
            --bg: #f6f6f8;
            --surface: #ffffff;
            --raised: #f1f1f4;
            --line: #e3e3e8;
            --strong-line: #c9c9d1;
            --text: #1b1b20;
            --muted: #60606b;
            --accent: #3a55c8;
            --accent-bg: #ebeefb;
            --on-accent: #ffffff;
            --good: #14704f;
            --good-bg: #e2f3ec;
            --bad: #b3261e;
            --bad-bg: #fce8e6;
            --warn: #815400;
            --warn-bg: #fbf0d6;
            --chart-accent: #6478d3;
            --chart-soft: #c3cbf0;
            --chart-good: #4aa383;
            --chart-bad: #cf4f46;
            --chart-warn: #d9a33b;
            --shadow: 0 1px 2px rgb(20 20 40 / 6%), 0 4px 16px rgb(20 20 40 / 6%);
            --sans: -apple-system, BlinkMacSystemFont, "Segoe UI", Roboto, Inter, "Helvetica Neue", Arial, sans-serif;
            --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
        }

        @media (prefers-color-scheme: dark) {
            :root {
                --bg: #121215;
                --surface: #19191d;
                --raised: #222228;
                --line: #2b2b32;
                --strong-line: #44444e;
                --text: #ececf1;
                --muted: #a2a2ae;
                --accent: #9aabff;
                --accent-bg: #252b45;
                --on-accent: #14183a;
                --good: #6fd3a8;
                --good-bg: #17332a;
                --bad: #ff9a90;
                --bad-bg: #401f1d;
                --warn: #f0c266;
                --warn-bg: #392d14;
                --chart-accent: #8396f0;
                --chart-soft: #3f4878;
                --chart-good: #4fae8a;
                --chart-bad: #e0695f;
                --chart-warn: #d6a445;
                --shadow: 0 1px 2px rgb(0 0 0 / 40%), 0 6px 20px rgb(0 0 0 / 35%);
            }
        }

        * { box-sizing: border-box; }
        [hidden] { display: none !important; }

        html, body { height: 100%; margin: 0; }

        body {
            display: flex;
            flex-direction: column;
            background: var(--bg);
            color: var(--text);
            font: 14px/1.45 var(--sans);
            scrollbar-width: thin;
            scrollbar-color: var(--strong-line) transparent;
            overflow: hidden;
        }

        h1, h2, h3, h4, p, dl, dd, ul, figure { margin: 0; padding: 0; }
        ul { list-style: none; }
        h1 { font-size: 15px; font-weight: 600; white-space: nowrap; }
        h2 { font-size: 13px; font-weight: 600; }
        h2 .muted { font-weight: 400; }
        h3 { font-size: 14px; font-weight: 600; }
        h4 { font-size: 13px; font-weight: 600; }
        .mono { font-family: var(--mono); font-size: 12.5px; }
        .muted { color: var(--muted); }

        .visually-hidden {
            position: absolute;
            width: 1px;
            height: 1px;
            overflow: hidden;
            clip-path: inset(50%);
            white-space: nowrap;
        }

        .skip {
            position: absolute;
            left: -999px;
            top: 8px;
            z-index: 10;
            background: var(--surface);
            color: var(--accent);
            padding: 8px 12px;
        }
        .skip:focus { left: 8px; }

        :focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }

        button, input { font: inherit; color: inherit; }

        button, input {
            min-height: 32px;
            border: 1px solid var(--line);
            border-radius: 7px;
            background: var(--surface);
            padding: 4px 11px;
        }
        input.mono { font-family: var(--mono); font-size: 12.5px; }

        button { cursor: pointer; white-space: nowrap; }
        button:hover { border-color: var(--strong-line); background: var(--raised); }
        button:disabled { color: var(--muted); cursor: default; }
        button.primary {
            background: var(--accent);
            border-color: var(--accent);
            color: var(--on-accent);
            font-weight: 550;
        }
        button.primary:hover { filter: brightness(1.08); }
        button.danger { color: var(--bad); }
        button.danger:hover { background: var(--bad-bg); border-color: var(--bad); }
        button.quiet { border-color: transparent; background: none; color: var(--muted); }
        button.quiet:hover { background: var(--raised); color: var(--text); }
        button.small { min-height: 26px; padding: 1px 9px; font-size: 12.5px; }
        button.link { border: 0; background: none; min-height: 24px; padding: 0 2px; color: var(--accent); }
        button.link:hover { text-decoration: underline; }
        [aria-busy="true"] button { cursor: progress; }
        input::placeholder { color: var(--muted); opacity: 1; }

        .top {
            display: flex;
            align-items: center;
            gap: 24px;
            padding: 6px 20px;
            min-height: 56px;
            background: var(--surface);
            border-bottom: 1px solid var(--line);
        }

        .brand { display: flex; align-items: center; gap: 10px; min-width: 0; }
        .logo { width: 22px; height: 22px; flex: none; }
        .logo rect { fill: var(--accent); }
        .logo path { fill: none; stroke: var(--on-accent); stroke-width: 1.5; }
        .version {
            max-width: 120px;
            color: var(--muted);
            font: 12.5px var(--mono);
            overflow: hidden;
            text-overflow: ellipsis;
            white-space: nowrap;
        }

        .state { flex: 1; min-width: 0; display: flex; align-items: center; gap: 12px; }
        .reason {
            min-width: 0;
            max-height: 5.4em;
            font-size: 13px;
            line-height: 1.35;
            overflow: auto;
            overflow-wrap: anywhere;
            unicode-bidi: isolate;
        }
        .live { display: inline-flex; align-items: center; gap: 7px; font-weight: 550; white-space: nowrap; }
        .live::before { content: ""; width: 9px; height: 9px; border-radius: 50%; background: var(--strong-line); }
        .live[data-state="ready"]::before { background: var(--chart-good); }
        .live[data-state="not-ready"]::before { background: var(--chart-warn); }
        .live[data-state="lost"]::before { background: var(--chart-bad); }
        .live[data-state="connecting"] { color: var(--muted); }
        .live[data-state="not-ready"] { color: var(--warn); }
        .live[data-state="lost"] { color: var(--bad); }
        .tools { display: flex; align-items: center; gap: 12px; }
        .updated {
            min-width: 116px;
            color: var(--muted);
            font-size: 12.5px;
            font-variant-numeric: tabular-nums;
            text-align: right;
        }

        .main {
            flex: 1;
            min-height: 0;
            display: grid;
            grid-template-columns: minmax(0, 1fr) minmax(480px, 43%);
        }
        .overview { min-height: 0; overflow: auto; padding: 18px 20px 28px; }
        .overview > section + section { margin-top: 28px; }
        .overview > section > h2, .section-head { margin-bottom: 10px; }
        .section-head {
            display: flex;
            align-items: center;
            justify-content: space-between;
            gap: 12px;
            min-height: 32px;
        }
        .section-head h2, .section-head h3 { min-width: 0; overflow-wrap: anywhere; }

        .figures { display: grid; grid-template-columns: repeat(5, minmax(0, 1fr)); gap: 14px 16px; }
        .figures div { min-width: 0; }
        .figures dt {
            color: var(--muted);
            font-size: 12px;
            white-space: nowrap;
            overflow: hidden;
            text-overflow: ellipsis;
        }
        .figures dd {
            font-weight: 600;
            font-variant-numeric: tabular-nums;
            line-height: 1.35;
            overflow: hidden;
            text-overflow: ellipsis;
            white-space: nowrap;
        }
        .figures dd.muted { font-weight: 400; font-size: 12.5px; }
        .figures.large dd { font-size: 18px; }
        .good { color: var(--good); }
        .warn { color: var(--warn); }
        .dot::before {
            content: "";
            display: inline-block;
            width: 8px;
            height: 8px;
            margin-right: 6px;
            border-radius: 2px;
        }
        .dot.accent::before, .segment.accent { background: var(--chart-accent); }
        .dot.soft::before, .segment.soft { background: var(--chart-soft); }
        .dot.good::before, .segment.good { background: var(--chart-good); }
        .dot.bad::before { background: var(--chart-bad); }
        .dot.warn::before, .segment.warn { background: var(--chart-warn); }

        .meter {
            display: flex;
            height: 8px;
            margin-top: 14px;
            border-radius: 4px;
            background: var(--line);
            overflow: hidden;
        }
        .segment { height: 100%; }
        .meter-text { margin-top: 5px; color: var(--muted); font-size: 12.5px; font-variant-numeric: tabular-nums; }
        .meter-text.bad { color: var(--bad); font-weight: 600; }

        .charts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 28px; margin-bottom: 18px; }
        .chart figcaption { display: flex; align-items: baseline; gap: 10px; margin-bottom: 6px; white-space: nowrap; }
        .chart-title { font-size: 12.5px; color: var(--muted); }
        .chart-highest { font-size: 11.5px; overflow: hidden; text-overflow: ellipsis; }
        .chart-value { margin-left: auto; font-size: 12.5px; font-weight: 600; font-variant-numeric: tabular-nums; }
        .chart svg { display: block; width: 100%; height: 48px; }
        .chart line { stroke: var(--strong-line); vector-effect: non-scaling-stroke; }
        .fill-accent { fill: var(--chart-accent); }
        .fill-soft { fill: var(--chart-soft); }
        .fill-good { fill: var(--chart-good); }
        .fill-bad { fill: var(--chart-bad); }
        .fill-warn { fill: var(--chart-warn); }

        .routes { width: 100%; border-collapse: collapse; table-layout: fixed; font-variant-numeric: tabular-nums; }
        .routes thead th {
            padding: 0 8px 6px;
            color: var(--muted);
            font-size: 12px;
            font-weight: 400;
            text-align: right;
        }
        .routes th:first-child { text-align: left; padding-left: 0; }
        .routes th:last-child, .routes tr > td:last-child { text-align: left; padding-right: 0; width: 90px; }
        .routes thead th:first-child { width: 28%; }
        .routes thead th:nth-child(5) { width: 108px; }
        .routes tbody { border-top: 1px solid var(--line); }
        .routes tbody th, .routes td { padding: 7px 8px; font-weight: 400; vertical-align: middle; }
        .routes .figure { text-align: right; white-space: nowrap; }
        .route-app { display: block; font-weight: 550; overflow-wrap: anywhere; unicode-bidi: isolate; }
        .route-kind { display: block; font-size: 12.5px; overflow-wrap: anywhere; unicode-bidi: isolate; }
        .routes td.route-reason {
            padding: 0 0 9px;
            color: var(--warn);
            font-size: 12.5px;
            overflow-wrap: anywhere;
            unicode-bidi: isolate;
        }
        #routes-filter input { width: 200px; }

        .relays { width: 100%; border-collapse: collapse; table-layout: fixed; font-variant-numeric: tabular-nums; }
        .relays th, .relays td {
            padding: 7px 8px;
            border-top: 1px solid var(--line);
            font-weight: 400;
            text-align: left;
            overflow-wrap: anywhere;
            unicode-bidi: isolate;
        }
        .relays thead th { padding: 0 8px 6px; border: 0; color: var(--muted); font-size: 12px; }
        .relays th:first-child { padding-left: 0; width: 40%; }
        .relays th:last-child, .relays td:last-child { padding-right: 0; }

        .pill {
            display: inline-block;
            flex: none;
            max-width: 100%;
            padding: 1px 9px;
            border-radius: 6px;
            font-size: 12px;
            font-weight: 600;
            line-height: 20px;
            background: var(--raised);
            color: var(--muted);
            overflow: hidden;
            text-overflow: ellipsis;
            white-space: nowrap;
            vertical-align: middle;
        }
        .pill.good { background: var(--good-bg); color: var(--good); }
        .pill.bad { background: var(--bad-bg); color: var(--bad); }
        .pill.warn { background: var(--warn-bg); color: var(--warn); }
        .pill.accent { background: var(--accent-bg); color: var(--accent); }

        .login { flex: 1; display: grid; place-items: start center; padding: 12vh 16px 16px; overflow: auto; }
        .card {
            display: flex;
            flex-direction: column;
            gap: 14px;
            width: min(400px, 100%);
            padding: 26px;
            border: 1px solid var(--line);
            border-radius: 14px;
            background: var(--surface);
            box-shadow: var(--shadow);
        }
        .card h2 { font-size: 17px; }
        .card label { color: var(--muted); font-size: 12.5px; }
        .card input { display: block; width: 100%; margin-top: 4px; color: var(--text); }
        .card .note { min-height: 1.4em; }
        .card button { align-self: flex-start; }

        .note { font-size: 13px; overflow-wrap: anywhere; unicode-bidi: isolate; }
        .note:empty { display: none; }
        .card .note:empty { display: block; }
        .note.bad, .bad { color: var(--bad); }
        """#
}
