#pragma once

#include <stddef.h>

/// The certificate "Apple App Attestation Root CA" in PEM form, without a final zero byte.
const unsigned char *_Nonnull apns_app_attest_root(size_t *_Nonnull count);
