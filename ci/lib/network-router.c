// A router in user space with the faults of bad networks: delay, jitter, reordering, loss, a low rate, packets that are
// too large, and a NAT that forgets its connections. It forwards IP packets between two TUN devices, which it creates
// if they do not exist: one in its own network namespace, and one in the namespace of the server.
//
//   network-router CLIENT_DEVICE SERVER_DEVICE SERVER_NAMESPACE [COMMAND…]
//   network-router client0 server0 /run/netns/server "both delay 25" "down loss 1"
//
// When both devices exist, it performs the commands of its arguments, with a line "ok" for each, and prints "ready".
// The caller then gives the devices addresses and enables them with `ip`. A queue of 10,000 packets (`ip link set
// client0 txqueuelen 10000`) prevents losses that no command asked for. Afterwards the router reads one command per
// line from its input, and responds to each with a line: "ok", the counts, or "error: …". It ends at the end of its
// input. The commands:
//
//   DIRECTION delay MILLISECONDS   how long each packet is on its way
//   DIRECTION jitter MILLISECONDS  the largest random addition to the delay; packets keep their order
//   DIRECTION reorder PERCENT      the share of packets that are 10 ms late, so that later ones overtake them
//   DIRECTION loss PERCENT         the share of packets that are dropped; 100: the link is down
//   DIRECTION rate KBITS           the rate of the link, with a buffer of 200 ms; 0: no limit
//   DIRECTION mtu BYTES            drops larger packets without "fragmentation needed"; 0: no limit
//   forget                         drops the packets of all TCP connections that exist now, as a restarted NAT does
//   count                          prints "up FORWARDED DROPPED down FORWARDED DROPPED"
//
// DIRECTION is `up` (client to server), `down` or `both`. All settings are 0 at first.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    // 300 ms of 50,000 packets a second.
    QUEUE_LIMIT = 16384,
    PACKET_LIMIT = 65536,
    // How many packets are read from one device before the other has its turn.
    BATCH = 64,
};
#define MILLISECOND INT64_C(1000000)
#define REORDER_DELAY (10 * MILLISECOND)
#define RATE_BUFFER (200 * MILLISECOND)

struct packet {
    int64_t due;
    // The order of arrival, for packets that are due at the same time.
    uint64_t number;
    size_t size;
    unsigned char bytes[];
};

struct direction {
    const char *name;
    int in, out;
    double delay, jitter, reorder, loss, rate, mtu;
    // When the link has sent everything that was accepted so far.
    int64_t link_free;
    int64_t last_due;
    uint64_t forwarded, dropped, arrived;
    // A binary heap; the packet that is due first is at index 0.
    struct packet *queue[QUEUE_LIMIT];
    int count;
};

static struct direction directions[2] = {{.name = "up"}, {.name = "down"}};
// The client's ports whose SYN was seen since the last "forget".
static unsigned char known_ports[65536];
static int forgot;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 * MILLISECOND + time.tv_nsec;
}

static int chance(double percent) { return percent > 0 && drand48() * 100 < percent; }

static int precedes(const struct packet *a, const struct packet *b) {
    return a->due != b->due ? a->due < b->due : a->number < b->number;
}

static void push(struct direction *way, struct packet *packet) {
    int index = way->count++;
    while (index > 0 && precedes(packet, way->queue[(index - 1) / 2])) {
        way->queue[index] = way->queue[(index - 1) / 2];
        index = (index - 1) / 2;
    }
    way->queue[index] = packet;
}

static struct packet *pop(struct direction *way) {
    struct packet *first = way->queue[0], *last = way->queue[--way->count];
    int index = 0;
    for (int child; (child = 2 * index + 1) < way->count; index = child) {
        if (child + 1 < way->count && precedes(way->queue[child + 1], way->queue[child])) child++;
        if (!precedes(way->queue[child], last)) break;
        way->queue[index] = way->queue[child];
    }
    way->queue[index] = last;
    return first;
}

// Whether the packet belongs to a TCP connection that the NAT has forgotten. Learns new connections by their SYN.
static int is_forgotten(int is_up, const unsigned char *bytes, size_t size) {
    size_t header = 0;
    if (size >= 20 && bytes[0] >> 4 == 4 && bytes[9] == 6) header = (bytes[0] & 15) * 4;
    if (size >= 40 && bytes[0] >> 4 == 6 && bytes[6] == 6) header = 40;
    if (header == 0 || size < header + 14) return 0;
    const unsigned char *tcp = bytes + header;
    int port = is_up ? tcp[0] << 8 | tcp[1] : tcp[2] << 8 | tcp[3];
    if (is_up && (tcp[13] & 0x12) == 0x02) known_ports[port] = 1;
    return forgot && !known_ports[port];
}

// Decides when a packet is due. Returns -1 if it is lost.
static int64_t schedule(struct direction *way, const unsigned char *bytes, size_t size, int64_t time) {
    if (is_forgotten(way == &directions[0], bytes, size) || way->count == QUEUE_LIMIT) return -1;
    if ((way->mtu > 0 && size > way->mtu) || chance(way->loss)) return -1;
    int64_t due = time;
    if (way->rate > 0) {
        if (way->link_free > time + RATE_BUFFER) return -1;
        if (way->link_free < time) way->link_free = time;
        way->link_free += (int64_t)(size * 8 / way->rate * MILLISECOND);
        due = way->link_free;
    }
    due += (int64_t)((way->delay + drand48() * way->jitter) * MILLISECOND);
    if (chance(way->reorder)) return due + REORDER_DELAY;
    if (due < way->last_due) due = way->last_due;
    way->last_due = due;
    return due;
}

static void receive(struct direction *way) {
    static unsigned char bytes[PACKET_LIMIT];
    for (int index = 0; index < BATCH; index++) {
        ssize_t size = read(way->in, bytes, sizeof bytes);
        if (size <= 0) return;
        int64_t due = schedule(way, bytes, (size_t)size, now());
        struct packet *packet = due < 0 ? NULL : malloc(sizeof *packet + (size_t)size);
        if (packet == NULL) {
            way->dropped++;
            continue;
        }
        packet->due = due;
        packet->number = way->arrived++;
        packet->size = (size_t)size;
        memcpy(packet->bytes, bytes, (size_t)size);
        push(way, packet);
    }
}

static void deliver(struct direction *way, int64_t time) {
    while (way->count > 0 && way->queue[0]->due <= time) {
        struct packet *packet = pop(way);
        // Fails if the device is disabled. A packet is lost then.
        if (write(way->out, packet->bytes, packet->size) == (ssize_t)packet->size) {
            way->forwarded++;
        } else {
            way->dropped++;
        }
        free(packet);
    }
}

static double *setting(struct direction *way, const char *name) {
    struct { const char *name; double *value; } all[] = {
        {"delay", &way->delay}, {"jitter", &way->jitter}, {"reorder", &way->reorder},
        {"loss", &way->loss}, {"rate", &way->rate}, {"mtu", &way->mtu},
    };
    for (size_t index = 0; index < sizeof all / sizeof *all; index++)
        if (strcmp(all[index].name, name) == 0) return all[index].value;
    return NULL;
}

// Returns whether the command is valid.
static int perform(const char *command) {
    char direction[16], name[16];
    double value;
    if (strcmp(command, "forget") == 0) {
        memset(known_ports, 0, sizeof known_ports);
        forgot = 1;
    } else if (strcmp(command, "count") == 0) {
        const struct direction *up = &directions[0], *down = &directions[1];
        printf("up %ju %ju down %ju %ju\n", (uintmax_t)up->forwarded, (uintmax_t)up->dropped,
               (uintmax_t)down->forwarded, (uintmax_t)down->dropped);
        return 1;
    } else {
        if (sscanf(command, "%15s %15s %lf", direction, name, &value) != 3) return 0;
        // Refuses NaN, too.
        if (!(value >= 0 && value <= 1e9)) return 0;
        int found = 0;
        for (int index = 0; index < 2; index++) {
            struct direction *way = &directions[index];
            if (strcmp(direction, "both") != 0 && strcmp(direction, way->name) != 0) continue;
            double *place = setting(way, name);
            if (place == NULL) return 0;
            *place = value;
            found = 1;
        }
        if (!found) return 0;
    }
    printf("ok\n");
    return 1;
}

// Reads commands. Returns whether there may be more.
static int read_commands(void) {
    static char text[4096];
    static size_t length;
    ssize_t size = read(STDIN_FILENO, text + length, sizeof text - 1 - length);
    if (size <= 0) return size < 0 && errno == EINTR;
    length += (size_t)size;
    text[length] = 0;
    for (char *end; (end = strchr(text, '\n')) != NULL;) {
        *end = 0;
        if (!perform(text)) printf("error: '%s' is not a command\n", text);
        length -= (size_t)(end + 1 - text);
        memmove(text, end + 1, length + 1);
    }
    // A line that does not fit is not a command.
    if (length == sizeof text - 1) length = 0;
    return 1;
}

static void fail(const char *what) {
    fprintf(stderr, "network-router: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int open_device(const char *name) {
    struct ifreq request = {0};
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0) fail("/dev/net/tun");
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
    if (ioctl(device, TUNSETIFF, &request) != 0) fail(name);
    return device;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: network-router CLIENT_DEVICE SERVER_DEVICE SERVER_NAMESPACE [COMMAND…]\n");
        return 64;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct direction *up = &directions[0], *down = &directions[1];
    up->in = down->out = open_device(argv[1]);
    int namespace = open(argv[3], O_RDONLY | O_CLOEXEC);
    if (namespace < 0 || setns(namespace, CLONE_NEWNET) != 0) fail(argv[3]);
    up->out = down->in = open_device(argv[2]);
    for (int index = 4; index < argc; index++) {
        if (!perform(argv[index])) {
            fprintf(stderr, "network-router: '%s' is not a command\n", argv[index]);
            return 64;
        }
    }
    printf("ready\n");
    for (;;) {
        struct pollfd sources[] = {{up->in, POLLIN, 0}, {down->in, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
        int64_t next = INT64_MAX;
        for (int index = 0; index < 2; index++)
            if (directions[index].count > 0 && directions[index].queue[0]->due < next)
                next = directions[index].queue[0]->due;
        int64_t wait = next == INT64_MAX ? 0 : next - now();
        if (wait < 0) wait = 0;
        struct timespec timeout = {wait / (1000 * MILLISECOND), wait % (1000 * MILLISECOND)};
        if (ppoll(sources, 3, next == INT64_MAX ? NULL : &timeout, NULL) < 0 && errno != EINTR) fail("poll");
        if (sources[0].revents & POLLIN) receive(up);
        if (sources[1].revents & POLLIN) receive(down);
        if (sources[2].revents && !read_commands()) return 0;
        deliver(up, now());
        deliver(down, now());
    }
}
