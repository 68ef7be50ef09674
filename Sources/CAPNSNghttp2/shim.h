#ifndef CAPNS_NGHTTP2_SHIM_H
#define CAPNS_NGHTTP2_SHIM_H

#if !__has_include(<nghttp2/nghttp2.h>)
#error "nghttp2's headers are missing. Install them: 'apt-get install libnghttp2-dev' (Debian, Ubuntu), 'dnf install libnghttp2-devel' (Fedora), 'brew install libnghttp2' (macOS)."
#endif

#include <nghttp2/nghttp2.h>

#endif
