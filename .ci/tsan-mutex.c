// Tells the Thread Sanitizer of the contended path of Swift's Mutex, which it cannot see: on Linux the kernel hands a
// contended lock over (FUTEX_LOCK_PI), and the code that asks for it lies in the runtime, which is not instrumented.
// Preloaded by `make test-tsan`. The uncontended path is an atomic exchange in our own code, which it sees.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define SWIFTCALL __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *self

#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

typedef void (*annotation)(void *);
typedef SWIFTCALL void (*lock_function)(uint32_t, SELF);
typedef SWIFTCALL void (*unlock_function)(SELF);

static void annotate(const char *name, void *address) {
    annotation function = (annotation)dlsym(RTLD_DEFAULT, name);
    if (function) function(address);
}

SWIFTCALL void lock_slow(uint32_t thread, SELF) __asm__(LOCK);
SWIFTCALL void lock_slow(uint32_t thread, SELF) {
    static lock_function next;
    if (!next) next = (lock_function)dlsym(RTLD_NEXT, LOCK);
    next(thread, self);
    annotate("__tsan_acquire", self);
}

SWIFTCALL void unlock_slow(SELF) __asm__(UNLOCK);
SWIFTCALL void unlock_slow(SELF) {
    static unlock_function next;
    if (!next) next = (unlock_function)dlsym(RTLD_NEXT, UNLOCK);
    annotate("__tsan_release", self);
    next(self);
}
