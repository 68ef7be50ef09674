// The files of the relay's page and the OpenAPI document of its API. They are part of the program, so it needs no files
// beside it.

#pragma once

#include <stddef.h>

struct apns_relay_file {
    /// Where it is served, from `/` on.
    const char *path;
    /// The value of `content-type`.
    const char *type;
    const unsigned char *bytes;
    size_t count;
};

/// The files of the page; `count` receives their number.
const struct apns_relay_file *apns_relay_page(size_t *count);

/// The OpenAPI document.
const struct apns_relay_file *apns_relay_openapi(void);
