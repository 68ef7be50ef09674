#ifndef APNS_RELAY_NATS_SHIM_H
#define APNS_RELAY_NATS_SHIM_H

#if !__has_include(<nats/nats.h>)
#error "libnats' headers are missing. Install them: 'apt-get install libnats-dev' (Debian, Ubuntu), 'brew install cnats' (macOS)."
#endif

#include <nats/nats.h>

#endif
