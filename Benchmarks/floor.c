// The least that a correct client over nghttp2 and OpenSSL costs: one connection, one thread, no library between. nghttp2
// compresses the header fields; a client that does it by itself may cost less.
//
// Each push has a path and an apns-id of its own, as real ones have; whole TLS records are written; the server's
// certificate is verified; each response must be 200 and repeat its push's apns-id. There is no pool, no deadline, no
// outcome but "accepted": any other answer ends the program with an error.
//
//   floor PORT CA-FILE PAYLOAD-FILE AUTHORIZATION PUSHES IN-FLIGHT
//
// Prints "accepted N".
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { record = 16 * 1024, path_length = 10 + 64, id_length = 36 };

typedef struct push {
    struct push *next;
    char path[path_length];
    char id[id_length];
    size_t sent;
    int is_accepted, is_same;
} push;

typedef struct {
    nghttp2_session *session;
    push *free;
    uint8_t *payload;
    size_t payload_length;
    char *authorization;
    long wanted, submitted, accepted;
    uint64_t random;
} client;

static void die(const char *what) {
    fprintf(stderr, "floor: %s\n", what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

static uint64_t next_random(client *c) {
    uint64_t z = (c->random += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void write_digits(char *to, uint64_t value, int count) {
    for (int i = 0; i < count; i++, value >>= 4) to[i] = "0123456789abcdef"[value & 15];
}

static void name_push(client *c, push *p) {
    memcpy(p->path, "/3/device/", 10);
    for (int i = 0; i < 4; i++) write_digits(p->path + 10 + 16 * i, next_random(c), 16);
    char digits[32];
    write_digits(digits, next_random(c), 16);
    write_digits(digits + 16, next_random(c), 16);
    digits[12] = '4';  // version 4, variant 8: RFC 9562
    digits[16] = '8';
    for (int from = 0, to = 0; to < id_length; to++) {
        p->id[to] = to == 8 || to == 13 || to == 18 || to == 23 ? '-' : digits[from++];
    }
}

static ssize_t read_body(
    nghttp2_session *session, int32_t stream, uint8_t *buffer, size_t length, uint32_t *flags,
    nghttp2_data_source *source, void *user
) {
    client *c = user;
    push *p = source->ptr;
    size_t count = c->payload_length - p->sent;
    if (count > length) count = length;
    memcpy(buffer, c->payload + p->sent, count);
    p->sent += count;
    if (p->sent == c->payload_length) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)count;
}

#define FIXED(name_, value_, length_)                                                             \
    { (uint8_t *)name_, (uint8_t *)value_, sizeof(name_) - 1, length_,                            \
      NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE }

static void submit(client *c) {
    while (c->submitted < c->wanted && c->free) {
        push *p = c->free;
        c->free = p->next;
        p->sent = 0;
        p->is_accepted = p->is_same = 0;
        name_push(c, p);
        nghttp2_nv fields[] = {
            FIXED(":method", "POST", 4),
            FIXED(":scheme", "https", 5),
            FIXED(":authority", "localhost", 9),
            FIXED(":path", p->path, path_length),
            FIXED("authorization", c->authorization, strlen(c->authorization)),
            FIXED("apns-topic", "com.grasscove.Fern", 18),
            FIXED("apns-push-type", "alert", 5),
            FIXED("apns-id", p->id, id_length),
        };
        // The first one lets the table learn the name; later values are new each time and not worth a place.
        if (c->submitted > 0) fields[7].flags |= NGHTTP2_NV_FLAG_NO_INDEX;
        nghttp2_data_provider body = {.source = {.ptr = p}, .read_callback = read_body};
        if (nghttp2_submit_request(c->session, NULL, fields, 8, &body, p) < 0) die("a request was not taken");
        c->submitted++;
    }
}

static int on_header(
    nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
    const uint8_t *value, size_t value_length, uint8_t flags, void *user
) {
    push *p = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!p) return 0;
    if (name_length == 7 && !memcmp(name, ":status", 7)) {
        p->is_accepted = value_length == 3 && !memcmp(value, "200", 3);
    } else if (name_length == 7 && !memcmp(name, "apns-id", 7)) {
        p->is_same = 1;
        for (size_t i = 0; i < id_length; i++) {
            // APNs answers in upper case.
            if (value_length != id_length || (value[i] | 0x20) != (p->id[i] | 0x20)) p->is_same = 0;
        }
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user) {
    client *c = user;
    push *p = nghttp2_session_get_stream_user_data(session, stream);
    if (code != 0 || !p || !p->is_accepted) die("a push was not accepted: the server must respond to each one with 200");
    if (!p->is_same) die("a response lacks its push's apns-id: the server must repeat the apns-id, as APNs does");
    c->accepted++;
    p->next = c->free;
    c->free = p;
    return 0;
}

static int connected(const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    if (getaddrinfo("localhost", port, &hints, &list) != 0) die("no address");
    for (struct addrinfo *a = list; a; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
            int on = 1;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            freeaddrinfo(list);
            return fd;
        }
        if (fd >= 0) close(fd);
    }
    die("cannot connect");
    return -1;
}

static SSL *secured(int fd, const char *ca_file) {
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION)) die("no TLS context");
    if (!SSL_CTX_load_verify_locations(context, ca_file, NULL)) die("the CA file cannot be read");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (SSL_CTX_set_alpn_protos(context, (const uint8_t *)"\x02h2", 3) != 0) die("no ALPN");
    SSL *ssl = SSL_new(context);
    if (!ssl || !SSL_set1_host(ssl, "localhost") || !SSL_set_tlsext_host_name(ssl, "localhost")) die("no TLS");
    SSL_set_fd(ssl, fd);
    if (SSL_connect(ssl) != 1) die("the handshake failed");
    const uint8_t *protocol;
    unsigned length;
    SSL_get0_alpn_selected(ssl, &protocol, &length);
    if (length != 2 || memcmp(protocol, "h2", 2) != 0) die("the server does not speak HTTP/2");
    return ssl;
}

static void run(client *c, SSL *ssl, int fd) {
    static uint8_t output[record], input[record];
    size_t filled = 0, written = 0;
    const uint8_t *rest = NULL;
    ssize_t rest_length = 0;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    while (c->accepted < c->wanted) {
        int is_blocked = 0;
        for (int may_read = 1; may_read;) {
            int count = SSL_read(ssl, input, sizeof input);
            if (count > 0) {
                if (nghttp2_session_mem_recv(c->session, input, (size_t)count) < 0) die("the peer broke the protocol");
            } else {
                if (SSL_get_error(ssl, count) != SSL_ERROR_WANT_READ) die("the connection was lost");
                may_read = 0;
            }
        }
        submit(c);
        while (!is_blocked) {
            // As many frames as a record holds.
            while (filled < record) {
                if (rest_length == 0) rest_length = nghttp2_session_mem_send(c->session, &rest);
                if (rest_length < 0) die("nothing can be sent");
                if (rest_length == 0) break;
                size_t count = (size_t)rest_length < record - filled ? (size_t)rest_length : record - filled;
                memcpy(output + filled, rest, count);
                filled += count;
                rest += count;
                rest_length -= (ssize_t)count;
            }
            if (written == filled) break;
            int count = SSL_write(ssl, output + written, (int)(filled - written));
            if (count > 0) {
                written += (size_t)count;
                if (written == filled) written = filled = 0;
            } else {
                if (SSL_get_error(ssl, count) != SSL_ERROR_WANT_WRITE) die("the connection was lost");
                is_blocked = 1;
            }
        }
        if (c->accepted == c->wanted) break;
        struct pollfd one = {.fd = fd, .events = (short)(POLLIN | (is_blocked ? POLLOUT : 0))};
        if (poll(&one, 1, 30000) <= 0 && errno != EINTR) die("no response within 30 seconds");
    }
}

int main(int count, char **arguments) {
    if (count != 7) die("usage: floor PORT CA-FILE PAYLOAD-FILE AUTHORIZATION PUSHES IN-FLIGHT");
    client c = {.authorization = arguments[4], .wanted = atol(arguments[5]), .random = (uint64_t)getpid()};
    long in_flight = atol(arguments[6]);
    if (c.wanted < 1 || in_flight < 1) die("PUSHES and IN-FLIGHT are 1 or more");
    FILE *file = fopen(arguments[3], "rb");
    c.payload = malloc(4096);
    if (!file || !c.payload || (c.payload_length = fread(c.payload, 1, 4096, file)) == 0) die("no payload");
    fclose(file);
    push *pushes = calloc((size_t)in_flight, sizeof(push));
    if (!pushes) die("no memory");
    for (long i = 0; i < in_flight; i++) {
        pushes[i].next = c.free;
        c.free = &pushes[i];
    }
    int fd = connected(arguments[1]);
    SSL *ssl = secured(fd, arguments[2]);
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) die("no memory");
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_client_new(&c.session, callbacks, &c) != 0) die("no memory");
    nghttp2_settings_entry no_push = {NGHTTP2_SETTINGS_ENABLE_PUSH, 0};
    if (nghttp2_submit_settings(c.session, 0, &no_push, 1) != 0) die("no settings");
    run(&c, ssl, fd);
    printf("accepted %ld\n", c.accepted);
    SSL_shutdown(ssl);
    return 0;
}
