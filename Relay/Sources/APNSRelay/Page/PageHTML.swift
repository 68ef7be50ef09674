/// The document of the relay's page, served as `/`.
enum PageHTML {
    static let text = #"""
        <!doctype html>
        <html lang="en">
        <head>
            <meta charset="utf-8">
            <title>APNs relay</title>
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E
                %3Crect width='16' height='16' rx='4' fill='%233f5bd6'/%3E
                %3Cpath d='M3 5h5M3 8h10M3 11h5M10.5 5.5L13 8l-2.5 2.5' stroke='white' stroke-width='1.5'
                fill='none'/%3E%3C/svg%3E">
            <link rel="stylesheet" href="/page.css">
            <link rel="stylesheet" href="/panel.css">
            <script type="module" src="/main.js"></script>
        </head>
        <body>
        <a class="skip" href="#panel">Skip to pushes and outcomes</a>
        <header class="top">
            <div class="brand">
                <svg class="logo" viewBox="0 0 16 16" aria-hidden="true">
                    <rect width="16" height="16" rx="4"/><path d="M3 5h5M3 8h10M3 11h5M10.5 5.5L13 8l-2.5 2.5"/>
                </svg>
                <h1>APNs relay</h1>
                <span id="version" class="version"></span>
            </div>
            <div class="state">
                <span id="state" class="live" data-state="connecting">Connecting</span>
                <span id="reason" class="reason"></span>
            </div>
            <div class="tools">
                <span id="updated" class="updated"></span>
                <button type="button" id="forget" hidden>Forget token</button>
            </div>
        </header>
        <main id="login" class="login" hidden>
            <form id="login-form" class="card" autocomplete="off">
                <h2>Operator's token</h2>
                <p class="muted">This relay asks for a token. It stays in this tab until you close the tab or
                    forget it.</p>
                <label>Token
                    <input id="token" class="mono" type="password" autocomplete="off" spellcheck="false" required
                        aria-describedby="login-note"></label>
                <p id="login-note" class="note bad"></p>
                <button class="primary">Continue</button>
            </form>
        </main>
        <main id="main" class="main">
            <div class="overview">
                <section aria-labelledby="queue-title">
                    <h2 id="queue-title">Queue</h2>
                    <div id="queue"></div>
                </section>
                <section aria-labelledby="rates-title">
                    <h2 id="rates-title">Throughput
                        <span class="muted">per second, and since the start of the relay</span></h2>
                    <div id="charts" class="charts"></div>
                    <div id="totals"></div>
                </section>
                <section aria-labelledby="routes-title">
                    <div class="section-head">
                        <h2 id="routes-title">Routes <span id="routes-count" class="muted"></span></h2>
                        <label id="routes-filter" hidden><span class="visually-hidden">Filter the routes</span>
                            <input type="search" placeholder="Filter the routes" autocomplete="off"
                                spellcheck="false"></label>
                    </div>
                    <div id="routes"></div>
                </section>
                <section id="relays-section" aria-labelledby="relays-title" hidden>
                    <h2 id="relays-title">Relays <span id="relays-count" class="muted"></span></h2>
                    <div id="relays"></div>
                </section>
            </div>
            <aside id="panel" class="panel" tabindex="-1" aria-label="Pushes, outcomes and webhooks">
                <div class="tabs" role="tablist" aria-label="Panel">
                    <button type="button" role="tab" id="tab-outcomes" aria-controls="panel-outcomes"
                        aria-selected="true">Outcomes</button>
                    <button type="button" role="tab" id="tab-parked" aria-controls="panel-parked" aria-selected="false"
                        tabindex="-1">Parked<span class="tab-count" id="parked-count" hidden></span></button>
                    <button type="button" role="tab" id="tab-dead" aria-controls="panel-dead" aria-selected="false"
                        tabindex="-1">Dead tokens</button>
                    <button type="button" role="tab" id="tab-webhooks" aria-controls="panel-webhooks"
                        aria-selected="false" tabindex="-1">Webhooks<span class="tab-count" id="webhooks-count"
                            hidden></span></button>
                    <button type="button" role="tab" id="tab-push" aria-controls="panel-push" aria-selected="false"
                        tabindex="-1">Push</button>
                </div>
                <div class="panel-body" id="panel-outcomes" role="tabpanel" aria-labelledby="tab-outcomes" tabindex="-1"
                    ></div>
                <div class="panel-body" id="panel-parked" role="tabpanel" aria-labelledby="tab-parked" tabindex="-1"
                    hidden></div>
                <div class="panel-body" id="panel-dead" role="tabpanel" aria-labelledby="tab-dead" tabindex="-1"
                    hidden></div>
                <div class="panel-body" id="panel-webhooks" role="tabpanel" aria-labelledby="tab-webhooks" tabindex="-1"
                    hidden></div>
                <div class="panel-body" id="panel-push" role="tabpanel" aria-labelledby="tab-push" tabindex="-1"
                    hidden></div>
            </aside>
        </main>
        <div id="alert-region" class="visually-hidden" role="alert"></div>
        <div id="status-region" class="visually-hidden" role="status" aria-live="polite"></div>
        <dialog id="confirm" class="dialog" aria-labelledby="confirm-title" aria-describedby="confirm-text">
            <form method="dialog">
                <h2 id="confirm-title"></h2>
                <p id="confirm-text"></p>
                <div class="dialog-buttons">
                    <button value="cancel">Go back</button>
                    <button value="confirm" id="confirm-yes" class="danger"></button>
                </div>
            </form>
        </dialog>
        <noscript>This page needs JavaScript. The same data is at /v1/overview.</noscript>
        </body>
        </html>
        """#
}
