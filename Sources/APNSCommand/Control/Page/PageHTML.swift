/// The document of the simulator's page, served as `/`.
enum PageHTML {
    static let text = #"""
        <!doctype html>
        <html lang="en">
        <head>
            <meta charset="utf-8">
            <title>APNs simulator</title>
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E
                %3Crect width='16' height='16' rx='4' fill='%233f5bd6'/%3E
                %3Cpath d='M4 8h6M7.5 5l3 3-3 3' stroke='white' stroke-width='1.6' fill='none'/%3E%3C/svg%3E">
            <link rel="stylesheet" href="/page.css">
            <link rel="stylesheet" href="/panel.css">
            <script type="module" src="/main.js"></script>
        </head>
        <body data-tab="push">
        <a class="skip" href="#list">Skip to the pushes</a>
        <header class="top">
            <div class="brand">
                <svg class="logo" viewBox="0 0 16 16" aria-hidden="true">
                    <rect width="16" height="16" rx="4"/><path d="M4 8h6M7.5 5l3 3-3 3"/>
                </svg>
                <h1>APNs simulator</h1>
                <span id="endpoint" class="endpoint"></span>
            </div>
            <dl id="counts" class="counts" aria-label="Totals since the start or the last reset">
                <div><dt>Received</dt><dd data-count="received">0</dd></div>
                <div><dt>Accepted</dt><dd data-count="accepted">0</dd></div>
                <div><dt>Rejected</dt><dd data-count="rejected">0</dd></div>
                <div><dt>No response</dt><dd data-count="noResponse">0</dd></div>
                <div><dt>Connections</dt><dd data-count="connections">0</dd></div>
            </dl>
            <div class="actions">
                <span id="live" class="live" data-state="connecting">Connecting</span>
                <button type="button" class="narrow-only" data-open="device">Device</button>
                <button type="button" class="narrow-only" data-open="faults">Faults</button>
                <button type="button" id="reset">Reset…</button>
            </div>
        </header>
        <main>
            <section class="feed" aria-label="Pushes">
                <div id="charts" class="charts"></div>
                <form id="filters" class="filters" role="search" aria-label="Filter the pushes">
                    <div class="filter-row">
                        <label class="search">
                            <span class="visually-hidden">Search the pushes in the list</span>
                            <input id="search" name="text" type="search" placeholder="Search the list"
                                autocomplete="off" spellcheck="false" aria-keyshortcuts="/">
                            <kbd aria-hidden="true">/</kbd>
                        </label>
                        <label><span class="visually-hidden">Outcome</span>
                            <select name="outcome">
                                <option value="">Any outcome</option>
                                <option value="accepted">Accepted</option>
                                <option value="rejected">Rejected</option>
                                <option value="no-response">No response</option>
                            </select>
                        </label>
                        <label><span class="visually-hidden">Push type</span>
                            <select name="pushType"><option value="">Any type</option></select>
                        </label>
                        <button type="button" id="more" aria-expanded="false" aria-controls="more-filters"
                            >Filters</button>
                        <button type="button" id="pause" aria-pressed="false">Pause</button>
                    </div>
                    <div id="more-filters" class="more-filters" hidden>
                        <label>Device token
                            <input name="deviceToken" class="mono" autocomplete="off" spellcheck="false"></label>
                        <label>Topic
                            <input name="topic" autocomplete="off" spellcheck="false"></label>
                        <label>apns-id
                            <input name="apnsID" class="mono" autocomplete="off" spellcheck="false"></label>
                        <label>Collapse id
                            <input name="collapseID" autocomplete="off" spellcheck="false"></label>
                    </div>
                    <div id="active-filters" class="active-filters" hidden></div>
                </form>
                <div class="list-frame">
                    <button type="button" id="newer" class="newer" hidden></button>
                    <div id="list" class="list" role="listbox" tabindex="0" aria-label="Pushes, newest first">
                        <div class="spacer" role="presentation"></div>
                    </div>
                    <div id="empty" class="empty" hidden></div>
                </div>
                <footer class="bottom">
                    <span id="shown"></span>
                    <button type="button" id="show-charts" class="phone-only small" aria-expanded="false"
                        aria-controls="charts">Charts</button>
                    <span class="keys" aria-hidden="true"><kbd>↑</kbd><kbd>↓</kbd> move <kbd>Enter</kbd> open
                        <kbd>Esc</kbd> close <kbd>P</kbd> pause</span>
                </footer>
            </section>
            <aside id="panel" class="panel" aria-label="Push, device and faults">
                <div class="tabs">
                    <div role="tablist" aria-label="Panel">
                        <button type="button" role="tab" id="tab-push" aria-controls="panel-push" aria-selected="true"
                            >Push</button>
                        <button type="button" role="tab" id="tab-device" aria-controls="panel-device"
                            aria-selected="false" tabindex="-1">Device</button>
                        <button type="button" role="tab" id="tab-faults" aria-controls="panel-faults"
                            aria-selected="false" tabindex="-1">Faults<span class="tab-count" id="fault-count"
                                hidden></span></button>
                    </div>
                    <button type="button" id="close-panel" class="quiet">Close</button>
                </div>
                <div class="panel-body" id="panel-push" role="tabpanel" aria-labelledby="tab-push"
                    tabindex="-1"></div>
                <div class="panel-body" id="panel-device" role="tabpanel" aria-labelledby="tab-device" tabindex="-1"
                    hidden></div>
                <div class="panel-body" id="panel-faults" role="tabpanel" aria-labelledby="tab-faults" tabindex="-1"
                    hidden></div>
            </aside>
        </main>
        <div id="message" class="message" hidden>
            <span id="message-text"></span>
            <button type="button" id="message-close" class="quiet" aria-label="Dismiss the message">Close</button>
        </div>
        <div id="alert-region" class="visually-hidden" role="alert"></div>
        <div id="status-region" class="visually-hidden" role="status" aria-live="polite"></div>
        <dialog id="reset-dialog" class="dialog" aria-labelledby="reset-title">
            <form method="dialog">
                <h2 id="reset-title">Reset the simulator?</h2>
                <p>This clears all pushes, counts, faults, token states, devices and changed settings. Keys and channels
                    stay.</p>
                <div class="dialog-buttons">
                    <button value="cancel">Cancel</button>
                    <button value="reset" class="danger">Reset</button>
                </div>
            </form>
        </dialog>
        <noscript>This page needs JavaScript. The same data is at /v1/pushes.</noscript>
        </body>
        </html>
        """#
}
