// GETs from RocksDB in memory or, with -DSCAN, scans of it.
#include "common.h"

enum { KEYS = 50000, LENGTH = 100, SCANNED = 1000 };

typedef struct Opaque Opaque;
Opaque *rocksdb_create_mem_env(void), *rocksdb_options_create(void), *rocksdb_writeoptions_create(void);
Opaque *rocksdb_readoptions_create(void), *rocksdb_open(const Opaque *, const char *, char **);
Opaque *rocksdb_create_iterator(Opaque *, const Opaque *);
void rocksdb_options_set_env(Opaque *, Opaque *), rocksdb_options_set_create_if_missing(Opaque *, unsigned char);
void rocksdb_put(Opaque *, const Opaque *, const char *, size_t, const char *, size_t, char **);
char *rocksdb_get(Opaque *, const Opaque *, const char *, size_t, size_t *, char **);
void rocksdb_iter_seek(Opaque *, const char *, size_t), rocksdb_iter_next(Opaque *), rocksdb_iter_destroy(Opaque *);
unsigned char rocksdb_iter_valid(const Opaque *);
const char *rocksdb_iter_value(const Opaque *, size_t *);
void rocksdb_free(void *), rocksdb_close(Opaque *);

static char *error;

static void check(const char *what) {
    if (error)
        fail("%s: %s", what, error);
}

static size_t name(char *out, uint32_t key) { return (size_t)snprintf(out, 16, "key%08" PRIu32, key); }

int main(int argc, char **argv) {
    double scale = start(argc, argv, "rocksdb");
    Opaque *options = rocksdb_options_create(), *writing = rocksdb_writeoptions_create();
    Opaque *reading = rocksdb_readoptions_create();
    rocksdb_options_set_env(options, rocksdb_create_mem_env());
    rocksdb_options_set_create_if_missing(options, 1);
    Opaque *store = rocksdb_open(options, "/store", &error);
    check("open");
    char key[16], value[LENGTH] = {0};
    for (uint32_t i = 0; i < KEYS; i++) {
        size_t length = name(key, i);
        memcpy(value, &i, sizeof i);
        rocksdb_put(store, writing, key, length, value, LENGTH, &error);
        check("put");
    }
    uint64_t rng = 43, sum = 0;
#ifdef SCAN
    size_t scans = at_least(1, 4000 * scale);
    for (size_t i = 0; i < scans; i++) {
        uint32_t from = rng_below(&rng, KEYS - SCANNED);
        Opaque *iterator = rocksdb_create_iterator(store, reading);
        rocksdb_iter_seek(iterator, key, name(key, from));
        for (uint32_t k = from; k < from + SCANNED; k++, rocksdb_iter_next(iterator)) {
            size_t length;
            uint32_t stored;
            const char *found = rocksdb_iter_valid(iterator) ? rocksdb_iter_value(iterator, &length) : NULL;
            if (!found || length != LENGTH || (memcpy(&stored, found, sizeof stored), stored != k))
                fail("a scan from %" PRIu32 " misses %" PRIu32, from, k);
            sum = mix(sum, stored);
        }
        rocksdb_iter_destroy(iterator);
    }
#else
    size_t gets = at_least(1, 1000000 * scale);
    for (size_t i = 0; i < gets; i++) {
        uint32_t wanted = rng_below(&rng, KEYS), stored;
        size_t length;
        char *found = rocksdb_get(store, reading, key, name(key, wanted), &length, &error);
        check("get");
        if (!found || length != LENGTH || (memcpy(&stored, found, sizeof stored), stored != wanted))
            fail("no value for %" PRIu32, wanted);
        sum = mix(sum, stored);
        rocksdb_free(found);
    }
#endif
    rocksdb_close(store);
    return finish(sum);
}
