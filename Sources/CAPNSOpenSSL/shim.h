#ifndef CAPNS_OPENSSL_SHIM_H
#define CAPNS_OPENSSL_SHIM_H

#if !__has_include(<openssl/ssl.h>)
#error "OpenSSL's headers are missing. Install them: 'apt-get install libssl-dev' (Debian, Ubuntu), 'dnf install openssl-devel' (Fedora), 'brew install openssl@3' (macOS)."
#endif

#include <stdint.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

/* What follows are macros in OpenSSL, which Swift cannot see. */
static inline int capns_ctx_set_min_proto_version(SSL_CTX *ctx, int version) {
  return (int)SSL_CTX_set_min_proto_version(ctx, version);
}
static inline int capns_ctx_set_max_proto_version(SSL_CTX *ctx, int version) {
  return (int)SSL_CTX_set_max_proto_version(ctx, version);
}
static inline void capns_ctx_set_mode(SSL_CTX *ctx, long mode) { SSL_CTX_set_mode(ctx, mode); }
static inline void capns_ctx_disable_session_cache(SSL_CTX *ctx) {
  SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
}
static inline void capns_ctx_disable_tickets(SSL_CTX *ctx) { SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET); }
static inline void capns_ctx_forbid_renegotiation_and_compression(SSL_CTX *ctx) {
  SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
}
/* Takes over the reference to `x509`, as SSL_CTX_add_extra_chain_cert does. */
static inline int capns_ctx_add_chain_certificate(SSL_CTX *ctx, X509 *x509) {
  return (int)SSL_CTX_add0_chain_cert(ctx, x509);
}
static inline int capns_set_tlsext_host_name(SSL *ssl, const char *name) {
  return (int)SSL_set_tlsext_host_name(ssl, name);
}
/* Whether a TLS 1.2 server asked this client for a certificate. */
static inline int capns_certificate_was_requested(SSL *ssl) {
  const uint8_t *types = NULL;
  return SSL_get0_certificate_types(ssl, &types) > 0;
}
static inline size_t capns_bio_mem_data(BIO *bio, char **data) {
  long n = BIO_get_mem_data(bio, data);
  return n > 0 ? (size_t)n : 0;
}
static const int capns_bio_type_source_sink = BIO_TYPE_SOURCE_SINK;
static inline void capns_bio_set_retry_read(BIO *bio) { BIO_set_retry_read(bio); }
static inline void capns_bio_clear_retry(BIO *bio) { BIO_clear_retry_flags(bio); }
static inline EVP_PKEY *capns_new_p256_key(void) { return EVP_EC_gen("P-256"); }
/* The names of parameters stay in C: OpenSSL keeps them by their addresses, which Swift's strings do not have.
   `point` is 65 bytes: the form (4), x and y. NULL with an error in the queue unless it is a point of the curve. */
static inline EVP_PKEY *capns_p256_public_key(const unsigned char *point) {
  EVP_PKEY *key = NULL;
  OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char *)SN_X9_62_prime256v1, 0),
      OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, (void *)point, 65),
      OSSL_PARAM_construct_end(),
  };
  EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
  if (context && EVP_PKEY_fromdata_init(context) == 1) {
    EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters);
  }
  EVP_PKEY_CTX_free(context);
  return key;
}
/* Writes x and y of a P-256 key, 32 bytes each. 1, or another value. */
static inline int capns_p256_coordinates(const EVP_PKEY *key, unsigned char *coordinates) {
  BIGNUM *x = NULL, *y = NULL;
  int done = EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_EC_PUB_X, &x) == 1 &&
             EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_EC_PUB_Y, &y) == 1 &&
             BN_bn2binpad(x, coordinates, 32) == 32 && BN_bn2binpad(y, coordinates + 32, 32) == 32;
  BN_free(x);
  BN_free(y);
  return done;
}
static inline int capns_x509_stack_count(const STACK_OF(X509) *stack) { return stack ? sk_X509_num(stack) : 0; }
/* A reference of the caller's own. */
static inline X509 *capns_x509_stack_copy(const STACK_OF(X509) *stack, int index) {
  X509 *x509 = sk_X509_value(stack, index);
  if (x509) X509_up_ref(x509);
  return x509;
}
static inline void capns_x509_stack_free(STACK_OF(X509) *stack) { sk_X509_pop_free(stack, X509_free); }

/* The elements of an ASN1_SEQUENCE_ANY. */
static inline int capns_sequence_count(const ASN1_SEQUENCE_ANY *sequence) { return sk_ASN1_TYPE_num(sequence); }
static inline void capns_sequence_free(ASN1_SEQUENCE_ANY *sequence) {
  sk_ASN1_TYPE_pop_free(sequence, ASN1_TYPE_free);
}
/* NULL if the element is no UTF8String. */
static inline const ASN1_STRING *capns_sequence_utf8_string(const ASN1_SEQUENCE_ANY *sequence, int index) {
  const ASN1_TYPE *element = sk_ASN1_TYPE_value(sequence, index);
  return element && element->type == V_ASN1_UTF8STRING ? element->value.utf8string : NULL;
}

/* RFC 4514, with letters beyond ASCII as they are. */
static const unsigned long capns_name_flags = XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB;

static inline void capns_free(void *memory) { OPENSSL_free(memory); }

/* Protocols in the server's order, each after its length. */
struct capns_protocols {
  const unsigned char *names;
  unsigned int length;
};
/* ALPN on the server's side: chooses one of the protocols or refuses the handshake (RFC 7301, section 3.2). The argument
   must outlive the context. */
static int capns_alpn_select(SSL *ssl, const unsigned char **out, unsigned char *outlen, const unsigned char *in,
                             unsigned int inlen, void *arg) {
  const struct capns_protocols *own = (const struct capns_protocols *)arg;
  (void)ssl;
  if (SSL_select_next_proto((unsigned char **)out, outlen, own->names, own->length, in, inlen) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  return SSL_TLSEXT_ERR_OK;
}
static inline void capns_ctx_select_alpn_h2(SSL_CTX *ctx) {
  static const struct capns_protocols h2 = {(const unsigned char *)"\x02h2", 3};
  SSL_CTX_set_alpn_select_cb(ctx, capns_alpn_select, (void *)&h2);
}
static inline void capns_ctx_select_alpn_http1(SSL_CTX *ctx) {
  static const struct capns_protocols http1 = {(const unsigned char *)"\x08http/1.1\x08http/1.0", 18};
  SSL_CTX_set_alpn_select_cb(ctx, capns_alpn_select, (void *)&http1);
}

#endif
