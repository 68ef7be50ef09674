// Embeds the migrations of the queue's schema in the program.

#include "CPostgresMigrations.h"

#if !defined(__has_embed)
#error "#embed is missing. It needs the clang of Swift 6.2, or clang 19 or newer."
#endif
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char migration_1[] = {
#embed "migrations/1.sql"
};
static const unsigned char migration_2[] = {
#embed "migrations/2.sql"
};
static const unsigned char migration_3[] = {
#embed "migrations/3.sql"
};

static const apns_postgres_migration migrations[] = {
    {migration_1, sizeof migration_1},
    {migration_2, sizeof migration_2},
    {migration_3, sizeof migration_3},
};

const apns_postgres_migration *apns_postgres_migrations(size_t *count) {
    *count = sizeof migrations / sizeof migrations[0];
    return migrations;
}
