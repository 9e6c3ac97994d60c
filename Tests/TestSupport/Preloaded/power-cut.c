/* A disk that forgets what was not synced, for a program that has this library preloaded.
 *
 * Every change to files of one folder is noted with what undoes it; fsync and fdatasync strike the
 * notes of their file, fsync of a folder those of names in it (POSIX promises no more: a synced file
 * whose name was not synced is gone). At the chosen call the power fails: in place of the call the
 * changes that nobody synced are undone, and the process ends. Cut at the same call, every run leaves
 * the same state, unless a seed asks for what disks do as well: keep some of the writes, whole or their
 * beginning. Names are kept in the order of their changes, as journaling file systems do.
 *
 * POWER_CUT_FOLDER  the folder, absolute; all below it belongs to it
 * POWER_CUT_NOTES   a folder elsewhere on the same file system: `calls` lists the calls, one a line,
 *                   `before` holds the folder as it stood when the power failed
 * POWER_CUT_AT      the number of the call, from 1; 0 or nothing for never
 * POWER_CUT_SEED    keeps some un-synced writes; 0 or nothing keeps none
 * POWER_CUT_LIES    1 for a disk that claims to have synced and has not
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { WRITE, CREATE, FOLDER, UNLINK, RENAME };

struct change {
    enum kind kind;
    int file;               /* WRITE: index into files */
    off_t at, size;         /* WRITE: its place, and the length of the file before */
    size_t length, kept;    /* WRITE: bytes written (0: cut to `at`), bytes in `old` */
    char *old, *new;
    char path[512], other[512], saved[512];
    struct change *next, *previous;
};

/* A file of the folder, held open so that its number is not given to another. */
static struct { dev_t device; ino_t number; int descriptor; } files[256];
static int file_count;
static int file_of[65536];  /* by descriptor: index + 1 */
static struct change *first, *last;
static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static const char *folder, *notes;
static long calls, cut_at, saves;
static unsigned long seed;
static bool keeps_some, lies;
static int call_log = -1;

/* Other libraries may call these before this one has been begun, so each is looked up with its first use. */
static void *find(void **slot, const char *name) {
    if (!*slot) *slot = dlsym(RTLD_NEXT, name);
    return *slot;
}
#define REAL(name) ({ static void *slot; (__typeof__(&name))find(&slot, #name); })

__attribute__((constructor)) static void begin(void) {
    folder = getenv("POWER_CUT_FOLDER");
    notes = getenv("POWER_CUT_NOTES");
    if (!folder || !notes) return;
    const char *at = getenv("POWER_CUT_AT"), *number = getenv("POWER_CUT_SEED");
    cut_at = at ? atol(at) : 0;
    seed = number ? strtoul(number, NULL, 10) : 0;
    keeps_some = seed != 0;
    lies = getenv("POWER_CUT_LIES") != NULL;
    char path[600];
    snprintf(path, sizeof path, "%s/calls", notes);
    call_log = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static bool is_ours(const char *path) {
    if (call_log < 0 || !path) return false;
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) {
    int kept = errno;
    pthread_mutex_unlock(&mutex);
    errno = kept;
}

/* The file behind a descriptor, or -1. */
static int file_behind(int descriptor) {
    return descriptor >= 0 && descriptor < 65536 ? file_of[descriptor] - 1 : -1;
}

static void remember_file(int descriptor, const char *path) {
    struct stat facts;
    if (descriptor < 0 || descriptor >= 65536 || fstat(descriptor, &facts) != 0) return;
    if (!S_ISREG(facts.st_mode)) return;
    int index = 0;
    while (index < file_count
           && (files[index].device != facts.st_dev || files[index].number != facts.st_ino)) index++;
    if (index == 256) abort();
    if (index == file_count) {
        files[index].device = facts.st_dev;
        files[index].number = facts.st_ino;
        files[index].descriptor = REAL(open)(path, O_RDWR | O_CLOEXEC);
        if (files[index].descriptor < 0) abort();
        file_count++;
    }
    file_of[descriptor] = index + 1;
}

static struct change *note(enum kind kind, const char *path) {
    struct change *change = calloc(1, sizeof *change);
    change->kind = kind;
    if (path) snprintf(change->path, sizeof change->path, "%s", path);
    change->previous = last;
    if (last) last->next = change; else first = change;
    last = change;
    return change;
}

static void forget(struct change *change) {
    if (change->previous) change->previous->next = change->next; else first = change->next;
    if (change->next) change->next->previous = change->previous; else last = change->previous;
    if (change->saved[0]) REAL(unlink)(change->saved);
    free(change->old);
    free(change->new);
    free(change);
}

/* Notes what is in the way of a write, or of a cut when there is nothing to write. */
static void note_write(int file, const void *bytes, size_t length, off_t at) {
    struct stat facts;
    int descriptor = files[file].descriptor;
    if (fstat(descriptor, &facts) != 0) abort();
    struct change *change = note(WRITE, NULL);
    change->file = file;
    change->at = at;
    change->size = facts.st_size;
    change->length = length;
    size_t rest = facts.st_size > at ? (size_t)(facts.st_size - at) : 0;
    size_t room = bytes ? length : rest;
    change->old = malloc(room + 1);
    ssize_t count = pread(descriptor, change->old, room, at);
    change->kept = count > 0 ? count : 0;
    if (bytes) change->new = memcpy(malloc(length + 1), bytes, length);
}

/* Keeps a file that is about to lose its name. */
static void save(struct change *change, const char *path) {
    snprintf(change->saved, sizeof change->saved, "%s/saved-%ld", notes, ++saves);
    if (link(path, change->saved) != 0) change->saved[0] = 0;
}

static void undo(struct change *change) {
    int descriptor = files[change->file].descriptor;
    switch (change->kind) {
    case WRITE:
        if (REAL(pwrite)(descriptor, change->old, change->kept, change->at) < 0) abort();
        if (REAL(ftruncate)(descriptor, change->size) != 0) abort();
        break;
    case CREATE: REAL(unlink)(change->path); break;
    case UNLINK: REAL(rename)(change->saved, change->path); break;
    case RENAME:
        REAL(rename)(change->other, change->path);
        if (change->saved[0]) REAL(rename)(change->saved, change->other);
        break;
    case FOLDER: break;
    }
}

static int remove_entry(const char *path, const struct stat *facts, int type, struct FTW *place) {
    (void)facts, (void)type, (void)place;
    return remove(path);
}

/* SplitMix64. */
static unsigned long chance(unsigned long below) {
    unsigned long mixed = seed += 0x9E3779B97F4A7C15;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
    return (mixed ^ (mixed >> 31)) % below;
}

static void copy_folder(void) {
    char target[600];
    snprintf(target, sizeof target, "%s/before", notes);
    pid_t child = fork();
    if (child == 0) {
        char *words[] = { "cp", "-a", (char *)folder, target, NULL }, *none[] = { NULL };
        execve("/bin/cp", words, none);
        _exit(127);
    }
    waitpid(child, NULL, 0);
}

static void rewrite(struct change *change) {
    int descriptor = files[change->file].descriptor;
    if (chance(3) == 0) return;
    if (!change->new) {
        if (REAL(ftruncate)(descriptor, change->at) != 0) abort();
        return;
    }
    size_t length = chance(3) == 0 ? chance(change->length + 1) : change->length;
    if (REAL(pwrite)(descriptor, change->new, length, change->at) < 0) abort();
}

static void cut_power(void) {
    copy_folder();
    long names = 0, kept = 0;
    for (struct change *change = first; change; change = change->next) names += change->kind != WRITE;
    if (keeps_some) kept = chance(names + 1);
    for (struct change *change = last; change; change = change->previous) {
        if (change->kind == WRITE) undo(change);
        else if (names-- > kept) undo(change);
        else change->path[0] = 0;
    }
    for (struct change *change = first; keeps_some && change; change = change->next)
        if (change->kind == WRITE) rewrite(change);
    for (struct change *change = first; change; change = change->next)
        if (change->kind == FOLDER && change->path[0])
            nftw(change->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Lists a call, and fails the power in its place if it is the one. Called with the lock held. */
static void step(const char *call, const char *path) {
    dprintf(call_log, "%s %s\n", call, path + strlen(folder));
    if (++calls == cut_at) cut_power();
}

static void step_file(const char *call, int descriptor) {
    char name[64], path[600] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < (ssize_t)strlen(folder)) abort();
    step(call, path);
}

/* The path of a name in an open folder; of an absolute path, itself. */
static const char *absolute(int at, const char *name, char *buffer, size_t size) {
    if (!name || name[0] == '/' || at < 0 || call_log < 0) return name;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t length = readlink(link, buffer, size - 1);
    if (length < 0) return name;
    snprintf(buffer + length, size - length, "/%s", name);
    return buffer;
}

static int opened(int at, const char *name, int flags, mode_t mode) {
    char buffer[600];
    const char *path = absolute(at, name, buffer, sizeof buffer);
    if (!is_ours(path)) return REAL(openat)(at, name, flags, mode);
    lock();
    bool is_new = (flags & O_CREAT) && access(path, F_OK) != 0;
    bool empties = (flags & O_TRUNC) && !is_new;
    if (is_new || empties) step(is_new ? "create" : "empty", path);
    int descriptor = REAL(openat)(at, path, flags & ~O_TRUNC, mode);
    if (descriptor >= 0) {
        remember_file(descriptor, path);
        if (is_new) note(CREATE, path);
        int file = file_behind(descriptor);
        if (empties && file >= 0) {
            note_write(file, NULL, 0, 0);
            if (REAL(ftruncate)(files[file].descriptor, 0) != 0) abort();
        }
    }
    unlock();
    return descriptor;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }

int close(int descriptor) {
    if (file_behind(descriptor) >= 0) file_of[descriptor] = 0;
    return REAL(close)(descriptor);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t at) {
    int file = file_behind(descriptor);
    if (file < 0) return REAL(pwrite)(descriptor, bytes, length, at);
    lock();
    step_file("write", descriptor);
    note_write(file, bytes, length, at);
    ssize_t count = REAL(pwrite)(descriptor, bytes, length, at);
    unlock();
    return count;
}
ssize_t pwrite64(int descriptor, const void *bytes, size_t length, off64_t at) {
    return pwrite(descriptor, bytes, length, at);
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t at) {
    int file = file_behind(descriptor);
    if (file < 0) return REAL(pwritev)(descriptor, parts, count, at);
    lock();
    step_file("write", descriptor);
    size_t length = 0;
    for (int part = 0; part < count; part++) length += parts[part].iov_len;
    char *bytes = malloc(length + 1), *end = bytes;
    for (int part = 0; part < count; part++)
        end = (char *)memcpy(end, parts[part].iov_base, parts[part].iov_len) + parts[part].iov_len;
    note_write(file, bytes, length, at);
    free(bytes);
    ssize_t written = REAL(pwritev)(descriptor, parts, count, at);
    unlock();
    return written;
}
ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t at) {
    return pwritev(descriptor, parts, count, at);
}

ssize_t write(int descriptor, const void *bytes, size_t length) {
    int file = file_behind(descriptor);
    if (file < 0) return REAL(write)(descriptor, bytes, length);
    lock();
    step_file("write", descriptor);
    note_write(file, bytes, length, lseek(descriptor, 0, SEEK_CUR));
    ssize_t count = REAL(write)(descriptor, bytes, length);
    unlock();
    return count;
}

int ftruncate(int descriptor, off_t length) {
    int file = file_behind(descriptor);
    if (file < 0) return REAL(ftruncate)(descriptor, length);
    lock();
    step_file("cut", descriptor);
    note_write(file, NULL, 0, length);
    int result = REAL(ftruncate)(descriptor, length);
    unlock();
    return result;
}
int ftruncate64(int descriptor, off64_t length) { return ftruncate(descriptor, length); }

/* Whether a name stands directly in a folder. */
static bool stands_in(const char *path, const char *parent) {
    size_t length = strlen(parent);
    return strncmp(path, parent, length) == 0 && path[length] == '/' && !strchr(path + length + 1, '/');
}

static int synced(int descriptor, int (*real)(int), const char *call) {
    char name[64], path[600] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    int file = file_behind(descriptor);
    if (call_log < 0 || readlink(name, path, sizeof path - 1) < 0 || !is_ours(path)) return real(descriptor);
    lock();
    step(call, path);
    int result = real(descriptor);
    for (struct change *change = first, *next; change && result == 0 && !lies; change = next) {
        next = change->next;
        bool is_name = change->kind != WRITE;
        if (file >= 0 ? !is_name && change->file == file : is_name && stands_in(change->path, path))
            forget(change);
    }
    unlock();
    return result;
}
int fsync(int descriptor) { return synced(descriptor, REAL(fsync), "sync"); }
int fdatasync(int descriptor) { return synced(descriptor, REAL(fdatasync), "sync"); }

static bool is_there(const char *path) {
    struct stat facts;
    return lstat(path, &facts) == 0;
}

int unlink(const char *path) {
    if (!is_ours(path) || !is_there(path)) return REAL(unlink)(path);
    lock();
    step("unlink", path);
    save(note(UNLINK, path), path);
    int result = REAL(unlink)(path);
    unlock();
    return result;
}

int rename(const char *path, const char *other) {
    if (!is_ours(path)) return REAL(rename)(path, other);
    lock();
    step("rename", path);
    struct change *change = note(RENAME, path);
    snprintf(change->other, sizeof change->other, "%s", other);
    if (access(other, F_OK) == 0) save(change, other);
    int result = REAL(rename)(path, other);
    unlock();
    return result;
}

int mkdir(const char *path, mode_t mode) {
    if (!is_ours(path) || access(path, F_OK) == 0) return REAL(mkdir)(path, mode);
    lock();
    step("mkdir", path);
    int result = REAL(mkdir)(path, mode);
    if (result == 0) note(FOLDER, path);
    unlock();
    return result;
}

int unlinkat(int at, const char *name, int flags) {
    char buffer[600];
    const char *path = absolute(at, name, buffer, sizeof buffer);
    return flags == 0 && is_ours(path) ? unlink(path) : REAL(unlinkat)(at, name, flags);
}

int renameat(int at, const char *name, int other_at, const char *other) {
    char buffer[600], other_buffer[600];
    const char *path = absolute(at, name, buffer, sizeof buffer);
    if (!is_ours(path)) return REAL(renameat)(at, name, other_at, other);
    return rename(path, absolute(other_at, other, other_buffer, sizeof other_buffer));
}

int mkdirat(int at, const char *name, mode_t mode) {
    char buffer[600];
    const char *path = absolute(at, name, buffer, sizeof buffer);
    return is_ours(path) ? mkdir(path, mode) : REAL(mkdirat)(at, name, mode);
}
