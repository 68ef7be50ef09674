// Tells the Thread Sanitizer of two orders that it cannot see, since the code that makes them lies in Swift's runtime,
// which is not instrumented. Preloaded by `make test-tsan`.
//
// - The contended path of Mutex: on Linux the kernel hands a contended lock over (FUTEX_LOCK_PI). The uncontended path is
//   an atomic exchange in our own code, which it sees.
// - A continuation that is resumed before it is awaited: swift_continuation_resume says "release", but the matching
//   "acquire" is said where a job begins, and here none does. What follows an `await` frees the callee's frame first, so
//   it is said there.

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

#define FREE_FRAME "swift_task_dealloc"

typedef SWIFTCALL void (*free_function)(void *);
typedef SWIFTCALL void *(*current_function)(void);

SWIFTCALL void free_frame(void *frame) __asm__(FREE_FRAME);
SWIFTCALL void free_frame(void *frame) {
    static free_function next;
    static current_function current;
    static annotation acquire;
    if (!next) {
        current = (current_function)dlsym(RTLD_DEFAULT, "swift_task_getCurrent");
        acquire = (annotation)dlsym(RTLD_DEFAULT, "__tsan_acquire");
        next = (free_function)dlsym(RTLD_NEXT, FREE_FRAME);
    }
    next(frame);
    void *task = current ? current() : 0;
    if (task && acquire) acquire(task);
}
