// The files of the simulator's page and the OpenAPI document of the control API. They are part of the program, so it needs
// no files beside it.

#pragma once

#include <stddef.h>

struct apns_control_file {
    /// Where it is served, from `/` on.
    const char *path;
    /// The value of `content-type`.
    const char *type;
    const unsigned char *bytes;
    size_t count;
};

/// The files of the page; `count` receives their number.
const struct apns_control_file *apns_control_page(size_t *count);

/// The OpenAPI document.
const struct apns_control_file *apns_control_openapi(void);
