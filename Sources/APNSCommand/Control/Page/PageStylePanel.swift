/// The style of the page's side panel: push, device and faults. Served as `/panel.css`.
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
        .tabs {
            display: flex;
            align-items: center;
            justify-content: space-between;
            padding: 0 12px 0 16px;
            border-bottom: 1px solid var(--line);
        }
        [role="tablist"] { display: flex; gap: 4px; }
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
        }
        .panel-body { flex: 1; min-height: 0; overflow: auto; padding: 20px; overflow-wrap: anywhere; }
        .panel-body:focus-visible { outline-offset: -3px; }

        .placeholder { color: var(--muted); text-align: center; padding: 25% 32px 0; }
        .placeholder h2 { color: var(--text); font-size: 15px; margin-bottom: 6px; }

        .detail-head { display: flex; flex-direction: column; gap: 10px; }
        .detail-line {
            display: flex;
            align-items: center;
            justify-content: space-between;
            gap: 12px;
            font-size: 12.5px;
        }
        .detail-line > .muted { flex: none; }
        .detail-title { line-height: 1.3; unicode-bidi: isolate; }
        .section { margin-top: 26px; display: flex; flex-direction: column; gap: 9px; }
        .section > button { align-self: flex-start; }
        #show-device { margin-top: 14px; }
        .section-head { display: flex; align-items: center; justify-content: space-between; gap: 8px; }
        #panel-faults > .section:first-child { margin-top: 0; }

        .facts > div { display: grid; grid-template-columns: 116px minmax(0, 1fr); gap: 12px; padding: 3px 0; }
        .facts dt { color: var(--muted); }
        .facts dd { display: flex; align-items: flex-start; justify-content: space-between; gap: 8px; min-width: 0; }
        .facts .value { unicode-bidi: isolate; min-width: 0; }
        .facts .value.mono { line-height: 1.6; }
        .tools { flex: none; display: flex; margin: -2px -6px -2px 0; }

        .fields { border: 1px solid var(--line); border-radius: 9px; overflow: hidden; }
        .fields > div {
            display: grid;
            grid-template-columns: minmax(110px, 36%) minmax(0, 1fr);
            gap: 12px;
            padding: 5px 12px;
            line-height: 1.55;
        }
        .fields > div + div { border-top: 1px solid var(--line); }
        .fields dt { color: var(--muted); }
        .fields dd { unicode-bidi: isolate; white-space: pre-wrap; }

        .code {
            padding: 12px 14px;
            border: 1px solid var(--line);
            border-radius: 9px;
            background: var(--bg);
            line-height: 1.55;
            white-space: pre-wrap;
            overflow-wrap: anywhere;
            unicode-bidi: isolate;
            max-height: 60vh;
            overflow: auto;
            tab-size: 4;
        }
        .json-key { color: var(--accent); unicode-bidi: isolate; }
        .json-string { color: var(--good); unicode-bidi: isolate; }
        .json-number, .json-word { color: var(--warn); }
        .escape {
            border-radius: 3px;
            padding: 0 3px;
            background: var(--warn-bg);
            color: var(--warn);
            font-family: var(--mono);
            font-size: 0.88em;
            unicode-bidi: isolate;
        }

        .meter-line {
            display: flex;
            align-items: center;
            gap: 12px;
            font-size: 12.5px;
            font-variant-numeric: tabular-nums;
        }
        .meter-line > .muted { white-space: nowrap; }
        .meter { flex: 1; height: 6px; border-radius: 3px; background: var(--raised); overflow: hidden; }
        .meter-fill { display: block; height: 100%; min-width: 3px; border-radius: 3px; background: var(--chart-good); }
        .meter-fill.warn { background: var(--chart-warn); }
        .meter-fill.bad { background: var(--chart-bad); }

        .hints { display: flex; flex-direction: column; gap: 8px; }
        .hints li, .notice { padding: 9px 13px; border-radius: 9px; background: var(--warn-bg); color: var(--text); }
        .hints a { white-space: nowrap; }
        .notice.bad { background: var(--bad-bg); color: var(--bad); }
        .notice.plain { background: var(--raised); color: var(--muted); margin-top: 14px; }
        .notice.warn { color: var(--warn); }

        .device-bar {
            display: flex;
            flex-wrap: wrap;
            align-items: center;
            justify-content: space-between;
            gap: 10px 14px;
        }
        .device-choice { display: flex; align-items: center; gap: 10px; color: var(--muted); min-width: 0; flex: 1; }
        .device-choice select { flex: 1; min-width: 0; max-width: 240px; text-overflow: ellipsis; color: var(--text); }
        .device-tools { display: flex; align-items: center; gap: 4px; }
        .switch { display: inline-flex; align-items: center; gap: 8px; border-color: transparent; background: none; }
        .switch::before {
            content: "";
            width: 30px;
            height: 18px;
            border-radius: 9px;
            background: radial-gradient(circle at 9px 9px, var(--surface) 6.5px, transparent 7px), var(--muted);
        }
        .switch[aria-checked="true"]::before {
            background: radial-gradient(circle at 21px 9px, var(--surface) 6.5px, transparent 7px), var(--good);
        }

        .storage { display: flex; flex-direction: column; gap: 6px; margin-top: 14px; }
        .storage .device-choice select { max-width: none; }

        .preview { margin-top: 18px; }
        .phone {
            max-width: 400px;
            margin: 0 auto;
            padding: 9px;
            border-radius: 38px;
            background: var(--text);
            box-shadow: var(--shadow);
        }
        .screen {
            min-height: 340px;
            padding: 18px 14px 22px;
            border-radius: 30px;
            background: linear-gradient(170deg, #dfe5f4, #eae6f1 55%, #f2ebe9);
            display: flex;
            flex-direction: column;
            gap: 20px;
        }
        .screen-head {
            display: flex;
            justify-content: space-between;
            align-items: center;
            padding: 0 8px;
            font-size: 12.5px;
        }
        .screen-name { font-weight: 600; }
        .screen-note { font-size: 12px; color: var(--muted); padding: 0 8px; }
        .screen-empty { margin: auto; color: var(--muted); }
        .group { display: flex; flex-direction: column; gap: 8px; }
        .group > .group-name { padding-left: 8px; }
        .app-head { display: flex; align-items: center; gap: 11px; padding: 0 6px; }
        .app-icon {
            position: relative;
            flex: none;
            width: 34px;
            height: 34px;
            border-radius: 9px;
            background: var(--accent);
            color: var(--on-accent);
            display: grid;
            place-items: center;
            font-weight: 600;
        }
        .badge {
            position: absolute;
            top: -6px;
            right: -8px;
            min-width: 19px;
            padding: 0 5px;
            border-radius: 10px;
            background: #cf2e26;
            color: #ffffff;
            font-size: 11.5px;
            line-height: 19px;
            text-align: center;
        }
        .app-names { min-width: 0; flex: 1; line-height: 1.3; }
        .app-names .small, .app-numbers { font-size: 12px; }
        .app-numbers { display: flex; flex-direction: column; text-align: right; line-height: 1.35; }
        .thread { display: flex; flex-direction: column; gap: 6px; }
        .thread-name { padding: 4px 8px 0; }
        .notification, .activity {
            padding: 10px 13px;
            border-radius: 17px;
            background: rgb(255 255 255 / 78%);
            display: flex;
            flex-direction: column;
            gap: 2px;
        }
        .notification-line { display: flex; align-items: baseline; justify-content: space-between; gap: 10px; }
        .notification h4, .activity h4 { font-size: 14px; font-weight: 600; min-width: 0; unicode-bidi: isolate; }
        .notification p { unicode-bidi: isolate; white-space: pre-line; }
        .notification .subtitle { font-weight: 500; }
        .notification .text, .notification h4 {
            display: -webkit-box;
            -webkit-box-orient: vertical;
            -webkit-line-clamp: 4;
            overflow: hidden;
        }
        .notification-line .link { flex: none; font-variant-numeric: tabular-nums; }
        .tags { display: flex; flex-wrap: wrap; gap: 5px; margin-top: 4px; }
        .tag { display: inline-block; padding: 0 8px; border-radius: 6px; font-size: 11.5px; line-height: 19px; }
        .tag.plain { background: var(--raised); color: var(--muted); }

        .activity { gap: 6px; }
        .activity header { display: flex; align-items: center; justify-content: space-between; gap: 10px; }
        .data dl > div {
            display: grid;
            grid-template-columns: minmax(80px, 40%) minmax(0, 1fr);
            gap: 10px;
            padding: 3px 0;
        }
        .data dl > div + div { border-top: 1px solid rgb(128 128 140 / 22%); }
        .data dt { color: var(--muted); }
        .data dd { font-weight: 550; unicode-bidi: isolate; }
        summary { cursor: pointer; border-radius: 5px; width: fit-content; }
        .activity summary { color: var(--muted); font-size: 12.5px; }
        .history ol { margin-top: 6px; display: flex; flex-direction: column; gap: 7px; }
        .history li { padding-left: 12px; border-left: 2px solid var(--chart-accent); }
        .history li.ignored { border-left-color: var(--chart-warn); }
        .history-line { display: flex; align-items: center; gap: 8px; }
        .history-event { font-weight: 550; }
        .history-line > .muted { margin-left: auto; font-variant-numeric: tabular-nums; }
        .history .link { min-height: 20px; }
        .history .change { font-family: var(--mono); font-size: 12px; unicode-bidi: isolate; }

        .plain-list { display: flex; flex-direction: column; gap: 7px; }
        .link-list li, .fault-list li {
            display: flex;
            align-items: center;
            justify-content: space-between;
            gap: 10px;
            padding: 6px 0;
            border-bottom: 1px solid var(--line);
        }
        .form { margin-top: 18px; border: 1px solid var(--line); border-radius: 9px; }
        .form > summary { padding: 9px 13px; width: auto; font-weight: 550; }
        .stack { display: flex; flex-direction: column; gap: 11px; padding: 4px 13px 14px; }
        .stack label { color: var(--muted); font-size: 12.5px; }
        .stack input, .stack select, .stack textarea {
            display: block;
            width: 100%;
            margin-top: 3px;
            color: var(--text);
        }
        .stack button { align-self: flex-start; }
        textarea { resize: vertical; }

        .presets { display: grid; grid-template-columns: repeat(auto-fill, minmax(200px, 1fr)); gap: 9px; }
        .preset {
            display: flex;
            flex-direction: column;
            justify-content: flex-start;
            gap: 3px;
            padding: 10px 13px;
            border-radius: 9px;
            text-align: left;
            white-space: normal;
        }
        .preset-title { font-weight: 550; }
        .fault-text { display: flex; flex-direction: column; min-width: 0; }
        .fault-effect { font-weight: 550; }
        .fault-list { margin-bottom: 6px; }

        @media (prefers-color-scheme: dark) {
            .phone { background: #3a3a42; }
            .screen { background: linear-gradient(170deg, #1b2136, #221d30 55%, #2a2022); }
            .notification, .activity { background: rgb(255 255 255 / 8%); }
            .tag.plain { background: rgb(255 255 255 / 10%); color: var(--text); }
        }

        @media (min-width: 900px) {
            body:not([data-tab="push"].has-push) #close-panel { visibility: hidden; }
        }
        """#
}
