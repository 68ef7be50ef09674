// Embeds Apple's root certificate for App Attest in the program.

#include "CAppAttestRoot.h"

#if !defined(__has_embed)
#error "#embed is missing. It needs the clang of Swift 6.2, or clang 19 or newer."
#endif
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char root[] = {
#embed "apple-app-attestation-root-ca.pem"
};

const unsigned char *apns_app_attest_root(size_t *count) {
    *count = sizeof root;
    return root;
}
