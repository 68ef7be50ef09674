// The files of the relay's page, and the OpenAPI document of its API. They are embedded in the program, which needs no
// other files at run time.

#pragma once

#include <stddef.h>

struct apns_relay_file {
    /// The path at which it is served. It begins with `/`.
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
