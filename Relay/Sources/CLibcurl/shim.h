#ifndef CLIBCURL_SHIM_H
#define CLIBCURL_SHIM_H

#if !__has_include(<curl/curl.h>)
#error "libcurl's headers are missing. Install them: 'apt-get install libcurl4-openssl-dev' (Debian, Ubuntu), 'dnf install libcurl-devel' (Fedora), 'brew install curl' (macOS)."
#endif

#include <curl/curl.h>

/* Swift cannot call functions with a variable number of arguments. */
static inline CURLcode relay_curl_set_long(CURL *easy, CURLoption option, long value) {
  return curl_easy_setopt(easy, option, value);
}
static inline CURLcode relay_curl_set_size(CURL *easy, CURLoption option, curl_off_t value) {
  return curl_easy_setopt(easy, option, value);
}
static inline CURLcode relay_curl_set_pointer(CURL *easy, CURLoption option, const void *value) {
  return curl_easy_setopt(easy, option, value);
}
/* When the request is over, libcurl does not wait for a name lookup that still hangs. Needs libcurl 7.87. */
static inline void relay_curl_abandon_lookups(CURL *easy) {
#if LIBCURL_VERSION_NUM >= 0x075700
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
  (void)easy;
}
/* PEM, copied. Replaces the system's authorities. */
static inline CURLcode relay_curl_set_authorities(CURL *easy, const void *text, size_t length) {
  struct curl_blob blob = {(void *)text, length, CURL_BLOB_COPY};
  curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
  return curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &blob);
}
/* `function` is called as in CURLOPT_READFUNCTION(3), CURLOPT_WRITEFUNCTION(3) and CURLOPT_HEADERFUNCTION(3). */
typedef size_t (*relay_curl_function)(char *bytes, size_t size, size_t count, void *context);
static inline CURLcode relay_curl_set_function(CURL *easy, CURLoption option, relay_curl_function function) {
  return curl_easy_setopt(easy, option, function);
}
static const size_t relay_curl_read_abort = CURL_READFUNC_ABORT;

static inline long relay_curl_status(CURL *easy) {
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  return status;
}
/* Seconds; 0 or less without a valid header, for 0 and for a time in the past. */
static inline curl_off_t relay_curl_retry_after(CURL *easy) {
  curl_off_t seconds = 0;
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
  return seconds;
}

#endif
