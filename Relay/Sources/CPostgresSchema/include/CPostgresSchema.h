#pragma once

#include <stddef.h>

/// The SQL text of the queue's schema, without a final zero byte.
const unsigned char *_Nonnull apns_postgres_schema(size_t *_Nonnull count);
