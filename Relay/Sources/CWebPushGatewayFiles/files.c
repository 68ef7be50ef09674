// Embeds Apple's root certificate for App Attest and the gateway's part of the OpenAPI document in the program.

#include "CWebPushGatewayFiles.h"

#if !defined(__has_embed)
#error "#embed is missing. It needs the clang of Swift 6.2, or clang 19 or newer."
#endif
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char root[] = {
#embed "apple-app-attestation-root-ca.pem"
};
static const unsigned char openapi_json[] = {
#embed "openapi.json"
};

const unsigned char *apns_app_attest_root(size_t *count) {
    *count = sizeof root;
    return root;
}

const unsigned char *apns_web_push_openapi(size_t *count) {
    *count = sizeof openapi_json;
    return openapi_json;
}
