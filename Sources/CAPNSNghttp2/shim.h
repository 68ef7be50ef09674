#ifndef CAPNS_NGHTTP2_SHIM_H
#define CAPNS_NGHTTP2_SHIM_H

#if !__has_include(<nghttp2/nghttp2.h>)
#error "nghttp2's headers are missing. Install them: 'apt-get install libnghttp2-dev' (Debian, Ubuntu), 'dnf install libnghttp2-devel' (Fedora), 'brew install libnghttp2' (macOS)."
#endif

#include <nghttp2/nghttp2.h>
#include <stdint.h>
#include <stddef.h>

/* nghttp2 1.61 replaced the functions that spoke ssize_t by functions with a "2" behind their name and
   deprecated the old ones. These wrappers give Swift one name for both. */
#if NGHTTP2_VERSION_NUM >= 0x013d00
typedef nghttp2_data_source_read_callback2 capns_data_read_callback;
#else
typedef nghttp2_data_source_read_callback capns_data_read_callback;
#endif

static inline ptrdiff_t capns_session_mem_recv(nghttp2_session *session, const uint8_t *in, size_t inlen) {
#if NGHTTP2_VERSION_NUM >= 0x013d00
  return (ptrdiff_t)nghttp2_session_mem_recv2(session, in, inlen);
#else
  return (ptrdiff_t)nghttp2_session_mem_recv(session, in, inlen);
#endif
}

static inline ptrdiff_t capns_session_mem_send(nghttp2_session *session, const uint8_t **data) {
#if NGHTTP2_VERSION_NUM >= 0x013d00
  return (ptrdiff_t)nghttp2_session_mem_send2(session, data);
#else
  return (ptrdiff_t)nghttp2_session_mem_send(session, data);
#endif
}

/* The data source is an index (plus one) into the owner's slab, never a pointer that could dangle. The request has one
   field: the owner writes the header block itself (HeaderEncoder). */
static inline int32_t capns_submit_request(nghttp2_session *session, capns_data_read_callback read, uintptr_t index) {
  static const uint8_t name[] = ":method", value[] = "POST";
  const nghttp2_nv method = {(uint8_t *)name, (uint8_t *)value, sizeof name - 1, sizeof value - 1,
                             NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
#if NGHTTP2_VERSION_NUM >= 0x013d00
  nghttp2_data_provider2 provider;
  provider.source.ptr = (void *)index;
  provider.read_callback = read;
  return nghttp2_submit_request2(session, NULL, &method, 1, read ? &provider : NULL, (void *)index);
#else
  nghttp2_data_provider provider;
  provider.source.ptr = (void *)index;
  provider.read_callback = read;
  return nghttp2_submit_request(session, NULL, &method, 1, read ? &provider : NULL, (void *)index);
#endif
}

static inline int capns_submit_response(nghttp2_session *session, int32_t stream_id, const nghttp2_nv *nva,
                                        size_t nvlen, capns_data_read_callback read, uintptr_t index) {
#if NGHTTP2_VERSION_NUM >= 0x013d00
  nghttp2_data_provider2 provider;
  provider.source.ptr = (void *)index;
  provider.read_callback = read;
  return nghttp2_submit_response2(session, stream_id, nva, nvlen, read ? &provider : NULL);
#else
  nghttp2_data_provider provider;
  provider.source.ptr = (void *)index;
  provider.read_callback = read;
  return nghttp2_submit_response(session, stream_id, nva, nvlen, read ? &provider : NULL);
#endif
}

/* Encodes one field. */
static inline ptrdiff_t capns_hd_deflate(nghttp2_hd_deflater *deflater, uint8_t *bytes, size_t count,
                                         const nghttp2_nv *field) {
#if NGHTTP2_VERSION_NUM >= 0x013d00
  return (ptrdiff_t)nghttp2_hd_deflate_hd2(deflater, bytes, count, field, 1);
#else
  return (ptrdiff_t)nghttp2_hd_deflate_hd(deflater, bytes, count, field, 1);
#endif
}

/* nghttp2_frame is a union, which Swift would copy whole to read one field of it. */
static inline uint8_t capns_frame_type(const nghttp2_frame *frame) { return frame->hd.type; }
static inline uint8_t capns_frame_flags(const nghttp2_frame *frame) { return frame->hd.flags; }
static inline int32_t capns_frame_stream_id(const nghttp2_frame *frame) { return frame->hd.stream_id; }
static inline nghttp2_headers_category capns_frame_headers_category(const nghttp2_frame *frame) {
  return frame->headers.cat;
}
static inline int32_t capns_frame_goaway_last_stream_id(const nghttp2_frame *frame) {
  return frame->goaway.last_stream_id;
}
static inline uint32_t capns_frame_goaway_error_code(const nghttp2_frame *frame) { return frame->goaway.error_code; }
static inline const uint8_t *capns_frame_goaway_debug_data(const nghttp2_frame *frame) {
  return frame->goaway.opaque_data;
}
static inline size_t capns_frame_goaway_debug_data_length(const nghttp2_frame *frame) {
  return frame->goaway.opaque_data_len;
}

static inline size_t capns_frame_settings_count(const nghttp2_frame *frame) { return frame->settings.niv; }
static inline nghttp2_settings_entry capns_frame_setting(const nghttp2_frame *frame, size_t index) {
  return frame->settings.iv[index];
}

/* Distributions carried this function back to older versions, so the version number does not tell whether it is
   there; the linker does. */
extern void nghttp2_option_set_stream_reset_rate_limit(nghttp2_option *option, uint64_t burst, uint64_t rate)
    __attribute__((weak));
static inline void capns_option_set_stream_reset_rate_limit(nghttp2_option *option, uint64_t burst, uint64_t rate) {
  if (nghttp2_option_set_stream_reset_rate_limit) {
    nghttp2_option_set_stream_reset_rate_limit(option, burst, rate);
  }
}

/* nghttp2 1.67 and 1.68 end a session after 1,000 frames that they ignore, such as late responses on streams that were
   reset. `GlitchBudget` has a limit that takes progress into account, so this one is switched off. */
extern void nghttp2_option_set_glitch_rate_limit(nghttp2_option *option, uint64_t burst, uint64_t rate)
    __attribute__((weak));
static inline void capns_option_disable_glitch_rate_limit(nghttp2_option *option) {
  if (nghttp2_option_set_glitch_rate_limit) {
    nghttp2_option_set_glitch_rate_limit(option, UINT32_MAX, UINT32_MAX);
  }
}

#endif
