// Embeds the queue's schema in the program.

#include "CPostgresSchema.h"

#if !defined(__has_embed)
#error "#embed is missing. It needs the clang of Swift 6.2, or clang 19 or newer."
#endif
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char schema[] = {
#embed "schema/queue.sql"
    ,
#embed "schema/enqueue.sql"
    ,
#embed "schema/rights.sql"
};

const unsigned char *apns_postgres_schema(size_t *count) {
    *count = sizeof schema;
    return schema;
}
