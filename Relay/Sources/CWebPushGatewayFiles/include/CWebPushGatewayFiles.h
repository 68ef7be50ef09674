#pragma once

#include <stddef.h>

/// The certificate "Apple App Attestation Root CA" in PEM form, without a final zero byte.
const unsigned char *_Nonnull apns_app_attest_root(size_t *_Nonnull count);

/// The gateway's part of the OpenAPI document, without a final zero byte.
const unsigned char *_Nonnull apns_web_push_openapi(size_t *_Nonnull count);
