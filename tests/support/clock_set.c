/* Preloaded, sets the wall clock of one process: by as many seconds as the int64 in the file that
 * CLOCK_SET names. Waits until a time of that clock last as long as they do after the kernel's
 * clock was set. The machine's own clock, and the monotonic one, stay as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define SLICE (SECOND / 10)

static volatile int64_t zero, *set_by = &zero;
static int (*kernels)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("CLOCK_SET");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *shared = mmap(0, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (shared != MAP_FAILED)
        set_by = shared;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!kernels)
        kernels = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = kernels(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *set_by;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now)
        *now = found.tv_sec;
    return found.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    clock_gettime(CLOCK_REALTIME, now);
    return base;
}

/* The end of the next slice of a wait, on the monotonic clock; whether it is the last one. */
static int is_last(const struct timespec *end, struct timespec *slice) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t left = (end->tv_sec - now.tv_sec) * SECOND + end->tv_nsec - now.tv_nsec;
    int64_t wait = left < 0 ? 0 : left > SLICE ? SLICE : left;
    clock_gettime(CLOCK_MONOTONIC, slice);
    slice->tv_sec += (slice->tv_nsec + wait) / SECOND;
    slice->tv_nsec = (slice->tv_nsec + wait) % SECOND;
    return left <= SLICE;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict lock,
                           const struct timespec *restrict end) {
    if (condition->__data.__wrefs & 2) /* of the monotonic clock */
        return pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, end);
    for (;;) {
        struct timespec slice;
        int last = is_last(end, &slice);
        int failed = pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, &slice);
        if (failed != ETIMEDOUT || last)
            return failed;
    }
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict lock,
                  const struct timespec *restrict end) {
    int failed = pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)lock, end);
    return failed == ETIMEDOUT ? thrd_timedout : failed ? thrd_error : thrd_success;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict end) {
    for (;;) {
        struct timespec slice;
        int last = is_last(end, &slice);
        int failed = sem_clockwait(semaphore, CLOCK_MONOTONIC, &slice);
        if (!failed || errno != ETIMEDOUT || last)
            return failed;
    }
}
