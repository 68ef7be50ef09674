#ifndef CAPNS_OPENSSL_SHIM_H
#define CAPNS_OPENSSL_SHIM_H

#if !__has_include(<openssl/ssl.h>)
#error "OpenSSL's headers are missing. Install them: 'apt-get install libssl-dev' (Debian, Ubuntu), 'dnf install openssl-devel' (Fedora), 'brew install openssl@3' (macOS)."
#endif

#include <openssl/ssl.h>

#endif
