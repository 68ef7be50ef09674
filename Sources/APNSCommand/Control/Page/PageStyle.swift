/// The page's colours and layout, served as `/page.css`.
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

        h1, h2, h3, h4, p, dl, dd, ul, ol, figure, pre { margin: 0; padding: 0; }
        ul, ol { list-style: none; }
        h1 { font-size: 15px; font-weight: 600; white-space: nowrap; }
        h2 { font-size: 17px; font-weight: 600; }
        h3 { font-size: 13px; font-weight: 600; }
        a { color: var(--accent); }
        .mono, kbd, .code { font-family: var(--mono); font-size: 12.5px; }
        .muted { color: var(--muted); }
        .small { font-size: 12.5px; }

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
            padding: 8px 12px;
        }
        .skip:focus { left: 8px; }

        :focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }

        button, input, select, textarea { font: inherit; color: inherit; }

        button, select, input, textarea {
            min-height: 32px;
            border: 1px solid var(--line);
            border-radius: 7px;
            background: var(--surface);
            padding: 4px 11px;
        }

        button { cursor: pointer; white-space: nowrap; }
        button:hover { border-color: var(--strong-line); background: var(--raised); }
        button:disabled, select:disabled { color: var(--muted); cursor: default; }
        button[aria-pressed="true"], button[aria-expanded="true"] {
            background: var(--accent-bg);
            border-color: var(--accent);
            color: var(--accent);
        }
        button.primary {
            background: var(--accent);
            border-color: var(--accent);
            color: var(--on-accent);
            font-weight: 550;
        }
        button.primary:hover { filter: brightness(1.08); }
        button.danger { background: var(--bad-bg); border-color: var(--bad); color: var(--bad); font-weight: 550; }
        button.quiet { border-color: transparent; background: none; color: var(--muted); }
        button.quiet:hover { background: var(--raised); color: var(--text); }
        button.small { min-height: 24px; padding: 1px 8px; font-size: 12.5px; }
        button.link { border: 0; background: none; min-height: 24px; padding: 0 2px; color: var(--accent); }
        button.link:hover { text-decoration: underline; }
        input::placeholder { color: var(--muted); opacity: 1; }
        select { padding-right: 6px; }

        kbd {
            border: 1px solid var(--line);
            border-radius: 4px;
            padding: 0 5px;
            background: var(--raised);
            color: var(--muted);
            font-size: 11px;
        }

        .top {
            display: flex;
            align-items: center;
            gap: 24px;
            padding: 0 20px;
            min-height: 56px;
            background: var(--surface);
            border-bottom: 1px solid var(--line);
        }

        .brand { display: flex; align-items: center; gap: 10px; min-width: 0; }
        .logo { width: 22px; height: 22px; flex: none; }
        .logo rect { fill: var(--accent); }
        .logo path { fill: none; stroke: var(--on-accent); stroke-width: 1.6; }
        .endpoint {
            color: var(--muted);
            font: 12.5px var(--mono);
            overflow: hidden;
            text-overflow: ellipsis;
            white-space: nowrap;
        }

        .counts { display: flex; gap: 22px; margin-left: auto; font-variant-numeric: tabular-nums; }
        .counts div { display: flex; flex-direction: column-reverse; text-align: right; }
        .counts dt { color: var(--muted); font-size: 11.5px; line-height: 1.3; white-space: nowrap; }
        .counts dd { font-weight: 600; line-height: 1.3; }
        .actions { display: flex; align-items: center; gap: 10px; }
        .narrow-only, .phone-only { display: none; }

        .live {
            display: inline-flex;
            align-items: center;
            gap: 7px;
            color: var(--muted);
            font-size: 13px;
            white-space: nowrap;
        }
        .live::before { content: ""; width: 8px; height: 8px; border-radius: 50%; background: var(--strong-line); }
        .live[data-state="live"]::before { background: var(--chart-good); }
        .live[data-state="paused"]::before { background: var(--chart-warn); }
        .live[data-state="lost"]::before { background: var(--chart-bad); }
        .live[data-state="lost"] { color: var(--bad); }

        main { flex: 1; min-height: 0; display: grid; grid-template-columns: minmax(0, 1fr) minmax(380px, 37%); }
        .feed { display: flex; flex-direction: column; min-width: 0; min-height: 0; }

        .charts { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 28px; padding: 14px 20px 12px; }
        .chart figcaption { display: flex; align-items: baseline; gap: 8px; margin-bottom: 6px; white-space: nowrap; }
        .chart-title { color: var(--muted); font-size: 12.5px; overflow: hidden; text-overflow: ellipsis; }
        .chart-ago { font-size: 11.5px; }
        .chart-values {
            margin-left: auto;
            display: flex;
            gap: 8px;
            font-variant-numeric: tabular-nums;
            font-weight: 600;
        }
        .chart-value { font-size: 12.5px; }
        .chart-value.muted { font-weight: 400; }
        .chart canvas { display: block; width: 100%; height: 44px; }

        .filters { padding: 10px 20px; border-top: 1px solid var(--line); background: var(--surface); }
        .filter-row { display: flex; gap: 8px; align-items: center; }
        .search { position: relative; flex: 1; min-width: 0; }
        .search input { width: 100%; padding-right: 32px; }
        .search kbd { position: absolute; right: 9px; top: 50%; transform: translateY(-50%); }
        .search input:focus + kbd, .search input:not(:placeholder-shown) + kbd { display: none; }
        .more-filters { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 10px; padding-top: 10px; }
        .more-filters label { font-size: 12.5px; color: var(--muted); }
        .more-filters input { width: 100%; margin-top: 3px; color: var(--text); }
        .active-filters { display: flex; flex-wrap: wrap; gap: 6px; padding-top: 9px; }
        .chip {
            min-height: 26px;
            padding: 1px 10px;
            border-radius: 13px;
            background: var(--accent-bg);
            border-color: transparent;
            color: var(--accent);
            font-size: 12.5px;
            max-width: 100%;
            overflow: hidden;
            text-overflow: ellipsis;
        }
        .chip::after { content: "×"; margin-left: 7px; }

        .list-frame {
            position: relative;
            flex: 1;
            min-height: 0;
            background: var(--surface);
            border-top: 1px solid var(--line);
        }
        .list { position: absolute; inset: 0; overflow-y: auto; overflow-anchor: none; contain: strict; }
        .list:focus-visible { outline: none; }
        .list-frame:has(.list:focus-visible)::after {
            content: "";
            position: absolute;
            inset: 0;
            border: 2px solid var(--accent);
            pointer-events: none;
        }
        .spacer { position: relative; overflow: hidden; }

        .row {
            position: absolute;
            left: 0;
            right: 0;
            top: 0;
            height: 52px;
            display: flex;
            align-items: center;
            gap: 14px;
            padding: 0 20px;
            border-bottom: 1px solid var(--line);
            cursor: pointer;
            contain: strict;
        }
        .row:hover { background: var(--raised); }
        .row[aria-selected="true"] { background: var(--accent-bg); }
        .row.active::before {
            content: "";
            position: absolute;
            left: 0;
            top: 0;
            bottom: 0;
            width: 3px;
            background: var(--accent);
        }
        .list:focus-visible .row.active { box-shadow: inset 0 0 0 2px var(--accent); }

        .pill {
            flex: none;
            width: 46px;
            padding: 2px 0;
            border-radius: 6px;
            text-align: center;
            font: 600 12px/1.5 var(--mono);
            background: var(--raised);
            color: var(--muted);
        }
        .pill.wide { width: auto; padding: 2px 10px; text-align: left; overflow-wrap: anywhere; }
        .pill.good, .tag.good { background: var(--good-bg); color: var(--good); }
        .pill.bad, .tag.bad { background: var(--bad-bg); color: var(--bad); }
        .pill.warn, .tag.warn { background: var(--warn-bg); color: var(--warn); }

        .row-main { flex: 1; min-width: 0; display: flex; flex-direction: column; gap: 1px; }
        .row-title, .row-topic, .row-token, .row-collapse, .row-type {
            unicode-bidi: isolate;
            overflow: hidden;
            text-overflow: ellipsis;
            white-space: nowrap;
        }
        .row-title { font-weight: 500; }
        .row-detail {
            display: flex;
            gap: 0;
            color: var(--muted);
            font-size: 12.5px;
            white-space: nowrap;
            overflow: hidden;
        }
        .row-detail > * + *:not([hidden])::before { content: "·"; margin: 0 7px; color: var(--strong-line); }
        .row-type { flex: none; max-width: 200px; }
        .row-topic { flex: 0 1 auto; }
        .row-token { flex: none; max-width: 200px; font-size: 12px; line-height: 1.55; }
        .row-detail > .row-token::before { font-family: var(--sans); }
        .row-collapse { flex: 0 1 auto; }
        .row-type.bad { color: var(--bad); }
        .row-type.warn { color: var(--warn); }
        .good { color: var(--good); }
        .bad { color: var(--bad); }
        .warn { color: var(--warn); }
        .row-side {
            flex: none;
            text-align: right;
            color: var(--muted);
            font-size: 12.5px;
            font-variant-numeric: tabular-nums;
        }
        .row-time, .row-delay { display: block; }
        .row-delay { min-height: 1.45em; color: var(--warn); font-size: 12px; }

        .newer {
            position: absolute;
            top: 10px;
            left: 50%;
            transform: translateX(-50%);
            z-index: 2;
            border-radius: 16px;
            background: var(--accent);
            border-color: var(--accent);
            color: var(--on-accent);
            box-shadow: var(--shadow);
            font-weight: 550;
            font-variant-numeric: tabular-nums;
        }
        .newer:hover { background: var(--accent); filter: brightness(1.08); }
        .newer::before { content: "↑ "; }

        .empty {
            position: absolute;
            inset: 0;
            overflow: auto;
            padding: 40px 20px;
            display: flex;
            flex-direction: column;
            align-items: flex-start;
            gap: 14px;
            width: 100%;
            max-width: 720px;
            margin: 0 auto;
            background: var(--surface);
        }
        .command { width: 100%; display: flex; flex-direction: column; gap: 6px; margin-top: 6px; }

        .bottom {
            display: flex;
            justify-content: space-between;
            align-items: center;
            gap: 12px;
            padding: 0 20px;
            min-height: 34px;
            border-top: 1px solid var(--line);
            background: var(--surface);
            color: var(--muted);
            font-size: 12.5px;
            font-variant-numeric: tabular-nums;
        }
        .keys kbd:not(:first-child) { margin-left: 8px; }
        .keys kbd + kbd:nth-child(2) { margin-left: 2px; }

        .message {
            position: fixed;
            left: 20px;
            bottom: 44px;
            z-index: 6;
            display: flex;
            align-items: center;
            gap: 10px;
            max-width: min(640px, calc(100vw - 40px));
            padding: 7px 8px 7px 16px;
            border: 1px solid var(--line);
            border-radius: 10px;
            background: var(--surface);
            box-shadow: var(--shadow);
            overflow-wrap: anywhere;
        }
        .message.error { border-color: var(--bad); color: var(--bad); }

        .dialog {
            border: 1px solid var(--line);
            border-radius: 14px;
            padding: 24px;
            width: min(420px, calc(100vw - 32px));
        }
        .dialog { background: var(--surface); color: var(--text); box-shadow: var(--shadow); }
        .dialog p { margin: 10px 0 20px; color: var(--muted); }
        .dialog::backdrop { background: rgb(10 10 20 / 40%); }
        .dialog-buttons { display: flex; justify-content: flex-end; gap: 8px; }

        @media (max-width: 1180px) {
            .counts div:last-child, .endpoint { display: none; }
        }

        @media (max-width: 899px) {
            main { grid-template-columns: minmax(0, 1fr); }
            .narrow-only { display: inline-block; }
            .panel-open .feed { display: none; }
            body:not(.panel-open) .panel { display: none; }
            .top { flex-wrap: wrap; gap: 8px 14px; padding: 10px 16px; }
            .counts { order: 3; width: 100%; margin: 0; justify-content: space-between; gap: 8px; }
            .counts div { text-align: left; }
            .actions { margin-left: auto; gap: 6px; }
            .charts { padding: 12px 16px 10px; gap: 14px; }
            .filters, .bottom { padding-left: 16px; padding-right: 16px; }
            .more-filters { grid-template-columns: repeat(2, minmax(0, 1fr)); }
            .row { padding: 0 16px; gap: 12px; }
            .keys { display: none; }
            .message { left: 16px; right: 16px; bottom: 16px; max-width: none; justify-content: space-between; }
        }

        @media (max-width: 599px) {
            h1 { font-size: 14px; }
            .top { gap: 2px 14px; padding: 6px 16px; }
            .brand, .actions { gap: 6px; }
            body:not(.with-charts) .charts { display: none; }
            .phone-only { display: inline-block; }
            .actions button { padding: 4px 9px; font-size: 13px; }
            .top .live { font-size: 0; gap: 0; }
            .chart figcaption { flex-direction: column; gap: 0; margin-bottom: 4px; }
            .chart-values { margin-left: 0; }
            .chart-ago, .chart-value.muted { display: none; }
            .chart-title { font-size: 11.5px; max-width: 100%; }
            .filter-row { flex-wrap: wrap; }
            .search { flex-basis: 100%; }
            .filter-row > label:not(.search) { flex: 1; min-width: 0; }
            .filter-row select { width: 100%; padding-left: 6px; font-size: 13px; }
            .row-time { font-size: 12px; }
            .row-token, .row-collapse { display: none; }
            button, select, input { min-height: 36px; }
            button.small, button.link { min-height: 28px; }
        }

        @media (max-width: 419px) {
            h1 { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
        }

        @media (prefers-reduced-motion: no-preference) {
            button, .row { transition: background-color 80ms; }
        }
        """#
}
