/* Memory in a file without a name, whose pages the system can write to disk when memory
   is short. On Windows this is ordinary memory. */
#ifndef SKSSTRUCT_FILE_MEMORY_H
#define SKSSTRUCT_FILE_MEMORY_H

#include <stddef.h>

#ifdef _WIN32
#include <stdlib.h>
static inline void* sks_file_memory(size_t size, const char* folder) {
    (void)folder;
    return malloc(size);
}
static inline void sks_free_file_memory(void* memory, size_t size) {
    (void)size;
    free(memory);
}
#else
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
/* Returns NULL if there is no room; the folder must exist. */
static inline void* sks_file_memory(size_t size, const char* folder) {
    char name[4096];
    void* memory = MAP_FAILED;
    int file, error, length = snprintf(name, sizeof name, "%s/sksstruct-XXXXXX", folder);
    if (length < 0 || (size_t)length >= sizeof name) return NULL;
    file = mkstemp(name);
    if (file < 0) return NULL;
    unlink(name);
    /* reserve disk space now, or fail: a later write to a full disk would end the
       process */
#ifdef __linux__
    do error = posix_fallocate(file, 0, (off_t)size);
    while (error == EINTR); /* interrupted by a signal */
#else
    error = ftruncate(file, (off_t)size);
#endif
    if (error == 0)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    /* the mapping keeps the file open */
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}
static inline void sks_free_file_memory(void* memory, size_t size) {
    if (memory != NULL) munmap(memory, size);
}
#endif

#endif
