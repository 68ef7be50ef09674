// Embeds the simulator's page and the OpenAPI document of the control API in the program.

#include "CAPNSControlFiles.h"

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
static const unsigned char panel_css[] = {
#embed "page/panel.css"
};
static const unsigned char activity_js[] = {
#embed "page/activity.js"
};
static const unsigned char api_js[] = {
#embed "page/api.js"
};
static const unsigned char charts_js[] = {
#embed "page/charts.js"
};
static const unsigned char compare_js[] = {
#embed "page/compare.js"
};
static const unsigned char detail_js[] = {
#embed "page/detail.js"
};
static const unsigned char device_js[] = {
#embed "page/device.js"
};
static const unsigned char failures_js[] = {
#embed "page/failures.js"
};
static const unsigned char faults_js[] = {
#embed "page/faults.js"
};
static const unsigned char filters_js[] = {
#embed "page/filters.js"
};
static const unsigned char format_js[] = {
#embed "page/format.js"
};
static const unsigned char json_js[] = {
#embed "page/json.js"
};
static const unsigned char list_js[] = {
#embed "page/list.js"
};
static const unsigned char main_js[] = {
#embed "page/main.js"
};
static const unsigned char phone_js[] = {
#embed "page/phone.js"
};
static const unsigned char store_js[] = {
#embed "page/store.js"
};
static const unsigned char tests_js[] = {
#embed "page/tests.js"
};
static const unsigned char webpush_js[] = {
#embed "page/webpush.js"
};
static const unsigned char openapi_json[] = {
#embed "openapi.json"
};

#define FILE(path, type, bytes) {path, type, bytes, sizeof bytes}
#define HTML "text/html; charset=utf-8"
#define CSS "text/css; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"

static const struct apns_control_file page[] = {
    FILE("/", HTML, index_html),
    FILE("/kit/api.js", SCRIPT, kit_api_js),
    FILE("/kit/base.css", CSS, kit_base_css),
    FILE("/kit/dom.js", SCRIPT, kit_dom_js),
    FILE("/kit/format.js", SCRIPT, kit_format_js),
    FILE("/kit/tabs.js", SCRIPT, kit_tabs_js),
    FILE("/page.css", CSS, page_css),
    FILE("/panel.css", CSS, panel_css),
    FILE("/activity.js", SCRIPT, activity_js),
    FILE("/api.js", SCRIPT, api_js),
    FILE("/charts.js", SCRIPT, charts_js),
    FILE("/compare.js", SCRIPT, compare_js),
    FILE("/detail.js", SCRIPT, detail_js),
    FILE("/device.js", SCRIPT, device_js),
    FILE("/failures.js", SCRIPT, failures_js),
    FILE("/faults.js", SCRIPT, faults_js),
    FILE("/filters.js", SCRIPT, filters_js),
    FILE("/format.js", SCRIPT, format_js),
    FILE("/json.js", SCRIPT, json_js),
    FILE("/list.js", SCRIPT, list_js),
    FILE("/main.js", SCRIPT, main_js),
    FILE("/phone.js", SCRIPT, phone_js),
    FILE("/store.js", SCRIPT, store_js),
    FILE("/tests.js", SCRIPT, tests_js),
    FILE("/webpush.js", SCRIPT, webpush_js),
};

static const struct apns_control_file openapi = FILE("/openapi.json", "application/json", openapi_json);

const struct apns_control_file *apns_control_page(size_t *count) {
    *count = sizeof page / sizeof page[0];
    return page;
}

const struct apns_control_file *apns_control_openapi(void) {
    return &openapi;
}
