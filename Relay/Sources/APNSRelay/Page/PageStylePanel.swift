/// The style of the page's panel and dialog, and of narrow windows, served as `/panel.css`.
enum PageStylePanel {
    static let text = #"""
        .panel {
            display: flex;
            flex-direction: column;
            min-width: 0;
            min-height: 0;
            background: var(--surface);
            border-left: 1px solid var(--line);
        }
        .panel:focus-visible { outline-offset: -2px; }
        .tabs {
            display: flex;
            flex: none;
            gap: 2px;
            padding: 0 10px;
            border-bottom: 1px solid var(--line);
            flex-wrap: wrap;
        }
        [role="tab"] {
            min-height: 44px;
            border: 0;
            border-radius: 0;
            background: none;
            color: var(--muted);
            padding: 0 10px;
            border-bottom: 2px solid transparent;
        }
        [role="tab"]:hover { background: none; color: var(--text); }
        [role="tab"][aria-selected="true"] { color: var(--text); border-bottom-color: var(--accent); font-weight: 600; }
        [role="tab"]:focus-visible { outline-offset: -3px; }
        .tab-count {
            display: inline-block;
            min-width: 18px;
            margin-left: 7px;
            padding: 0 5px;
            border-radius: 9px;
            background: var(--warn-bg);
            color: var(--warn);
            font-size: 11.5px;
            font-weight: 600;
            line-height: 18px;
            font-variant-numeric: tabular-nums;
        }
        .panel-body { flex: 1; min-height: 0; overflow: auto; padding: 14px 20px 24px; }
        .panel-body:focus-visible { outline-offset: -3px; }
        .panel-body > p { padding: 8px 0; }

        .bar { display: flex; align-items: center; gap: 8px; min-height: 32px; margin-bottom: 8px; }
        .bar label { flex: 1; min-width: 0; }
        .bar label input { width: 100%; }
        .bar > p { flex: 1; min-width: 0; }
        .bar [data-action="newest"] { min-width: 84px; font-variant-numeric: tabular-nums; }

        .items > li + li { border-top: 1px solid var(--line); }
        .item { display: flex; align-items: flex-start; gap: 12px; width: 100%; padding: 9px 0; }
        button.item {
            min-height: 0;
            margin: 0 -10px;
            width: calc(100% + 20px);
            padding: 9px 10px;
            border: 0;
            border-radius: 0;
            background: none;
            text-align: left;
            white-space: normal;
        }
        button.item:hover { background: var(--raised); }
        button.item:focus-visible { outline-offset: -2px; }
        .pill.fixed { width: 104px; text-align: center; }
        .item-main { flex: 1; min-width: 0; display: flex; flex-direction: column; gap: 2px; }
        .item-title { overflow-wrap: anywhere; unicode-bidi: isolate; }
        .item-detail { font-size: 12.5px; overflow-wrap: anywhere; unicode-bidi: isolate; }
        .item-detail .mono { font-size: 12px; }
        .item .token { overflow-wrap: anywhere; unicode-bidi: isolate; }
        .item-side {
            flex: none;
            display: flex;
            flex-direction: column;
            align-items: flex-end;
            gap: 2px;
            font-size: 12.5px;
            font-variant-numeric: tabular-nums;
        }
        .item-side .tools { gap: 0; margin-right: -8px; }

        .row-actions { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 8px; margin-top: 5px; }
        .row-actions .note { flex: 1 1 200px; min-width: 0; }
        .panel-body > .row-actions { margin: 0 0 8px; }

        .webhook + .webhook { margin-top: 26px; padding-top: 18px; border-top: 1px solid var(--strong-line); }
        .webhook .section-head { margin-bottom: 0; }
        .webhook .url { overflow-wrap: anywhere; unicode-bidi: isolate; }
        .webhook .items { margin-top: 4px; }

        .push { margin-top: 14px; }
        .push h3 { overflow-wrap: anywhere; font-weight: 600; }
        .push h4 { margin-top: 20px; }
        .push .row-actions { margin: 0; }
        .fields { border: 1px solid var(--line); border-radius: 9px; overflow: hidden; margin-top: 8px; }
        .fields > div {
            display: grid;
            grid-template-columns: minmax(110px, 34%) minmax(0, 1fr);
            gap: 12px;
            align-items: baseline;
            padding: 5px 12px;
            line-height: 1.55;
        }
        .fields > div + div { border-top: 1px solid var(--line); }
        .fields dt { color: var(--muted); }
        .fields dd {
            font-family: var(--mono);
            font-size: 12.5px;
            unicode-bidi: isolate;
            white-space: pre-wrap;
            overflow-wrap: anywhere;
        }

        .escape {
            border-radius: 3px;
            padding: 0 3px;
            background: var(--warn-bg);
            color: var(--warn);
            font-family: var(--mono);
            font-size: 0.88em;
            unicode-bidi: isolate;
        }

        .dialog {
            border: 1px solid var(--line);
            border-radius: 14px;
            padding: 24px;
            width: min(440px, calc(100vw - 32px));
            background: var(--surface);
            color: var(--text);
            box-shadow: var(--shadow);
        }
        .dialog h2 { font-size: 17px; overflow-wrap: anywhere; }
        .dialog p { margin: 10px 0 20px; color: var(--muted); overflow-wrap: anywhere; unicode-bidi: isolate; }
        .dialog::backdrop { background: rgb(10 10 20 / 40%); }
        .dialog-buttons { display: flex; justify-content: flex-end; gap: 8px; }
        .dialog .danger { background: var(--bad-bg); border-color: var(--bad); color: var(--bad); font-weight: 550; }

        @media (max-width: 1060px) {
            body { overflow: auto; height: auto; }
            .main { display: block; }
            .overview, .panel-body { overflow: visible; }
            .panel { border-left: 0; border-top: 1px solid var(--line); min-height: 60vh; }
            .top { flex-wrap: wrap; gap: 8px 16px; padding: 10px 16px; }
            .state { order: 3; flex-basis: 100%; min-height: 36px; }
            .tools { margin-left: auto; }
            .overview { padding: 16px 16px 28px; }
            .panel-body { padding: 14px 16px 24px; }
        }

        @media (max-width: 599px) {
            .charts { grid-template-columns: minmax(0, 1fr); gap: 16px; }
            .figures { grid-template-columns: repeat(3, minmax(0, 1fr)); }
            .routes { table-layout: auto; }
            .routes .pill { max-width: 90px; }
            .routes thead th { padding: 0 5px 6px; font-size: 11.5px; white-space: nowrap; }
            .routes tbody th, .routes td { padding: 7px 5px; }
            .routes thead th:nth-child(n) { width: auto; }
            .routes :is(th, td):is(:nth-child(3), :nth-child(4)) { display: none; }
            .section-head { flex-wrap: wrap; }
            .state { min-height: 40px; }
            .tabs { padding: 0 6px; }
            [role="tab"] { padding: 0 8px; font-size: 13px; }
            .bar { flex-wrap: wrap; }
            .bar label, .bar > p { flex-basis: 100%; }
            .item { flex-wrap: wrap; gap: 4px 12px; }
            .pill.fixed { width: auto; }
            .item-main { flex-basis: 100%; }
            .item-side { flex-direction: row; align-items: center; gap: 10px; }
            button, input { min-height: 36px; }
            button.small, button.link { min-height: 30px; }
        }

        @media (prefers-reduced-motion: no-preference) {
            button { transition: background-color 80ms; }
        }
        """#
}
