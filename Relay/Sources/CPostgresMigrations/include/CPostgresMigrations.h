#pragma once

#include <stddef.h>

/// A migration of the queue's schema: SQL text, without a final zero byte.
typedef struct {
    const unsigned char *_Nonnull bytes;
    size_t count;
} apns_postgres_migration;

/// The migrations in the order of their numbers; the first one has the number 1.
const apns_postgres_migration *_Nonnull apns_postgres_migrations(size_t *_Nonnull count);
