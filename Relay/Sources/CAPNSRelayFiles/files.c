// Embeds the relay's page and the OpenAPI document of its API in the program. The simulator's page shares page/kit.

#include "CAPNSRelayFiles.h"

#if !defined(__has_embed)
#error "#embed is missing. It needs the clang of Swift 6.2, or clang 19 or newer."
#endif
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char index_html[] = {
#embed "page/index.html"
};
static const unsigned char kit_api_js[] = {
#embed "page/kit/api.js"
};
static const unsigned char kit_base_css[] = {
#embed "page/kit/base.css"
};
static const unsigned char kit_dom_js[] = {
#embed "page/kit/dom.js"
};
static const unsigned char kit_format_js[] = {
#embed "page/kit/format.js"
};
static const unsigned char kit_tabs_js[] = {
#embed "page/kit/tabs.js"
};
static const unsigned char page_css[] = {
#embed "page/page.css"
};
static const unsigned char actions_js[] = {
#embed "page/actions.js"
};
static const unsigned char api_js[] = {
#embed "page/api.js"
};
static const unsigned char batch_js[] = {
#embed "page/batch.js"
};
static const unsigned char batches_js[] = {
#embed "page/batches.js"
};
static const unsigned char charts_js[] = {
#embed "page/charts.js"
};
static const unsigned char figures_js[] = {
#embed "page/figures.js"
};
static const unsigned char first_js[] = {
#embed "page/first.js"
};
static const unsigned char format_js[] = {
#embed "page/format.js"
};
static const unsigned char login_js[] = {
#embed "page/login.js"
};
static const unsigned char main_js[] = {
#embed "page/main.js"
};
static const unsigned char outcomes_js[] = {
#embed "page/outcomes.js"
};
static const unsigned char parked_js[] = {
#embed "page/parked.js"
};
static const unsigned char problems_js[] = {
#embed "page/problems.js"
};
static const unsigned char push_js[] = {
#embed "page/push.js"
};
static const unsigned char reader_js[] = {
#embed "page/reader.js"
};
static const unsigned char rows_js[] = {
#embed "page/rows.js"
};
static const unsigned char table_js[] = {
#embed "page/table.js"
};
static const unsigned char tables_js[] = {
#embed "page/tables.js"
};
static const unsigned char openapi_json[] = {
#embed "openapi.json"
};

#define FILE(path, type, bytes) {path, type, bytes, sizeof bytes}
#define HTML "text/html; charset=utf-8"
#define CSS "text/css; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"

static const struct apns_relay_file page[] = {
    FILE("/", HTML, index_html),
    FILE("/kit/api.js", SCRIPT, kit_api_js),
    FILE("/kit/base.css", CSS, kit_base_css),
    FILE("/kit/dom.js", SCRIPT, kit_dom_js),
    FILE("/kit/format.js", SCRIPT, kit_format_js),
    FILE("/kit/tabs.js", SCRIPT, kit_tabs_js),
    FILE("/page.css", CSS, page_css),
    FILE("/actions.js", SCRIPT, actions_js),
    FILE("/api.js", SCRIPT, api_js),
    FILE("/batch.js", SCRIPT, batch_js),
    FILE("/batches.js", SCRIPT, batches_js),
    FILE("/charts.js", SCRIPT, charts_js),
    FILE("/figures.js", SCRIPT, figures_js),
    FILE("/first.js", SCRIPT, first_js),
    FILE("/format.js", SCRIPT, format_js),
    FILE("/login.js", SCRIPT, login_js),
    FILE("/main.js", SCRIPT, main_js),
    FILE("/outcomes.js", SCRIPT, outcomes_js),
    FILE("/parked.js", SCRIPT, parked_js),
    FILE("/problems.js", SCRIPT, problems_js),
    FILE("/push.js", SCRIPT, push_js),
    FILE("/reader.js", SCRIPT, reader_js),
    FILE("/rows.js", SCRIPT, rows_js),
    FILE("/table.js", SCRIPT, table_js),
    FILE("/tables.js", SCRIPT, tables_js),
};

static const struct apns_relay_file openapi = FILE("/openapi.json", "application/json", openapi_json);

const struct apns_relay_file *apns_relay_page(size_t *count) {
    *count = sizeof page / sizeof page[0];
    return page;
}

const struct apns_relay_file *apns_relay_openapi(void) {
    return &openapi;
}
