/* Put before libc with LD_PRELOAD: faults in, and a record of, what a program asks of its disk.
 *
 * IOFAULT_RULES names a file that is read again whenever it changes. A line of it is
 *
 *     CALL PART FIRST LAST ERROR DELAY_MS
 *
 * The calls number FIRST to LAST of CALL on paths that hold PART, counted since the file changed, take
 * DELAY_MS longer and then fail with ERROR; with ERROR 0 they are carried out. The line `clock SECONDS`
 * moves the wall clock. IOFAULT_RECORD names a file that gets a line "CALL RESULT OFFSET SIZE PATH" for each
 * call that is carried out, once it is over: RESULT is what it gave, -1 where it failed.
 *
 * CALL is create, open, pwrite, writeout, fdatasync, fsync, syncfs, allocate, resize, rename, unlink or mkdir.
 * A store through a map cannot be seen here; CometMQ makes none.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RULES_MAX 32
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

struct rule {
    char call[16], part[256];
    long first, last, seen;
    int error, delay_ms;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MAX];
static int rule_count;
static long clock_shift_s;
static struct stat rules_read;
static int record_fd = -1;

/* Read the rules anew where their file has changed; `mutex` is held. */
static void read_rules(void) {
    const char *path = getenv("IOFAULT_RULES");
    struct stat now;
    if (path == NULL || stat(path, &now) != 0) return;
    /* Two changes within one tick of the clock have the same time; each is a file of its own, though. */
    if (now.st_ino == rules_read.st_ino && now.st_size == rules_read.st_size &&
        now.st_mtim.tv_sec == rules_read.st_mtim.tv_sec && now.st_mtim.tv_nsec == rules_read.st_mtim.tv_nsec) return;
    FILE *file = fopen(path, "r");
    if (file == NULL) return;
    rules_read = now;
    rule_count = 0;
    clock_shift_s = 0;
    char line[512];
    while (fgets(line, sizeof line, file) != NULL && rule_count < RULES_MAX) {
        struct rule rule = {0};
        if (sscanf(line, "clock %ld", &clock_shift_s) == 1) continue;
        if (sscanf(line, "%15s %255s %ld %ld %d %d", rule.call, rule.part, &rule.first, &rule.last,
                   &rule.error, &rule.delay_ms) == 6)
            rules[rule_count++] = rule;
    }
    fclose(file);
}

/* What a call on a path has to suffer: the error it fails with, or 0. Waits as long as a rule says. */
static int suffer(const char *call, const char *path) {
    int error = 0, delay_ms = 0;
    pthread_mutex_lock(&mutex);
    read_rules();
    for (int i = 0; i < rule_count; i++) {
        struct rule *rule = &rules[i];
        if (strcmp(rule->call, call) != 0 || strstr(path, rule->part) == NULL) continue;
        rule->seen++;
        if (rule->seen < rule->first || rule->seen > rule->last) continue;
        error = rule->error;
        delay_ms = rule->delay_ms;
    }
    pthread_mutex_unlock(&mutex);
    if (delay_ms > 0) {
        struct timespec pause = {delay_ms / 1000, delay_ms % 1000 * 1000000L};
        nanosleep(&pause, NULL);
    }
    return error;
}

static void record(const char *call, long result, long offset, long size, const char *path) {
    int kept = errno;
    const char *target = getenv("IOFAULT_RECORD");
    if (target != NULL) {
        char line[PATH_MAX + 128];
        int length = snprintf(line, sizeof line, "%s %ld %ld %ld %s\n", call, result, offset, size, path);
        pthread_mutex_lock(&mutex);
        if (record_fd < 0) record_fd = REAL(open)(target, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
        if (write(record_fd, line, length) != length) abort(); /* A record with holes shows nothing. */
        pthread_mutex_unlock(&mutex);
    }
    errno = kept;
}

static const char *path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

/* One call: suffer what the rules say, else carry it out and record it. */
#define CARRY_OUT(call, path, offset, size, carried_out)       \
    do {                                                       \
        int error_ = suffer(call, path);                       \
        if (error_ != 0) {                                     \
            errno = error_;                                    \
            return -1;                                         \
        }                                                      \
        long result_ = (carried_out);                          \
        record(call, result_, (long)(offset), (long)(size), path); \
        return result_;                                        \
    } while (0)

/* The same for a file that is open. */
#define CARRY_OUT_ON(call, fd, offset, size, carried_out)                   \
    do {                                                                    \
        char path_[PATH_MAX];                                               \
        CARRY_OUT(call, path_of(fd, path_), offset, size, carried_out);     \
    } while (0)

static int open_as(const char *path, int flags, mode_t mode) {
    CARRY_OUT(flags & O_CREAT ? "create" : "open", path, 0, 0, REAL(open64)(path, flags, mode));
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_as(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_as(path, flags, mode);
}

ssize_t pwrite64(int fd, const void *piece, size_t size, off64_t offset) {
    CARRY_OUT_ON("pwrite", fd, offset, size, REAL(pwrite64)(fd, piece, size, offset));
}

ssize_t pwrite(int fd, const void *piece, size_t size, off_t offset) { return pwrite64(fd, piece, size, offset); }

int sync_file_range(int fd, off64_t offset, off64_t size, unsigned flags) {
    CARRY_OUT_ON("writeout", fd, offset, size, REAL(sync_file_range)(fd, offset, size, flags));
}

int fdatasync(int fd) { CARRY_OUT_ON("fdatasync", fd, 0, 0, REAL(fdatasync)(fd)); }

int fsync(int fd) { CARRY_OUT_ON("fsync", fd, 0, 0, REAL(fsync)(fd)); }

int syncfs(int fd) { CARRY_OUT_ON("syncfs", fd, 0, 0, REAL(syncfs)(fd)); }

int ftruncate64(int fd, off64_t size) { CARRY_OUT_ON("resize", fd, 0, size, REAL(ftruncate64)(fd, size)); }

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

/* It gives its error instead of setting errno. */
int posix_fallocate64(int fd, off64_t offset, off64_t size) {
    char path[PATH_MAX];
    int error = suffer("allocate", path_of(fd, path));
    if (error == 0) error = REAL(posix_fallocate64)(fd, offset, size);
    record("allocate", error == 0 ? 0 : -1, (long)offset, (long)size, path);
    return error;
}

int posix_fallocate(int fd, off_t offset, off_t size) { return posix_fallocate64(fd, offset, size); }

int rename(const char *source, const char *target) {
    CARRY_OUT("rename", target, 0, 0, REAL(rename)(source, target));
}

int unlink(const char *path) { CARRY_OUT("unlink", path, 0, 0, REAL(unlink)(path)); }

int mkdir(const char *path, mode_t mode) { CARRY_OUT("mkdir", path, 0, 0, REAL(mkdir)(path, mode)); }

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) real = REAL(clock_gettime);
    int result = real(id, now);
    if (result == 0 && id == CLOCK_REALTIME) {
        pthread_mutex_lock(&mutex);
        read_rules();
        now->tv_sec += clock_shift_s;
        pthread_mutex_unlock(&mutex);
    }
    return result;
}
