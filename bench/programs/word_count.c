// Counts the words of a book, chapter by chapter, in a hash table, then lists the most frequent.
#include "common.h"

enum { TOP = 10, LONGEST = 16, CHAPTER = 100000 };

typedef struct Entry {
    struct Entry *next;
    uint64_t hash, count;
    size_t length;
    char word[LONGEST]; // in lower case
} Entry;

typedef struct {
    Entry **slots;
    size_t size, used; // size: a power of two
} Table;

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c; }

static bool letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }

static void grow(Table *table) {
    size_t size = table->size * 2;
    Entry **slots = allocate(size, sizeof *slots);
    for (size_t i = 0; i < table->size; i++)
        for (Entry *e = table->slots[i], *next; e; e = next) {
            next = e->next;
            e->next = slots[e->hash & (size - 1)];
            slots[e->hash & (size - 1)] = e;
        }
    free(table->slots);
    table->slots = slots;
    table->size = size;
}

static int compare(const char *a, size_t a_length, const char *b, size_t b_length) {
    for (size_t i = 0; i < a_length && i < b_length; i++)
        if (lower(a[i]) != lower(b[i]))
            return lower(a[i]) < lower(b[i]) ? -1 : 1;
    return (a_length > b_length) - (a_length < b_length);
}

static Entry *find(Table *table, const char *word, size_t length, uint64_t hash) {
    for (Entry *e = table->slots[hash & (table->size - 1)]; e; e = e->next)
        if (e->hash == hash && !compare(e->word, e->length, word, length))
            return e;
    if (table->used >= table->size)
        grow(table);
    Entry *e = allocate(1, sizeof *e), **slot = &table->slots[hash & (table->size - 1)];
    *e = (Entry){.next = *slot, .hash = hash, .length = length};
    for (size_t i = 0; i < length; i++)
        e->word[i] = lower(word[i]);
    table->used++;
    return *slot = e;
}

// Finds the next word at or after *at, its length and hash; false at the end.
static bool next_word(const char **at, size_t *length, uint64_t *hash) {
    const char *from = *at;
    while (*from && !letter(*from))
        from++;
    const char *to = from;
    uint64_t h = 0xcbf29ce484222325u; // FNV-1a
    for (; letter(*to); to++)
        h = (h ^ (uint8_t)lower(*to)) * 0x100000001b3u;
    *at = from;
    *length = (size_t)(to - from);
    *hash = h ^ h >> 32;
    return to > from;
}

static int by_count(const void *a, const void *b) {
    const Entry *x = *(Entry *const *)a, *y = *(Entry *const *)b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return compare(x->word, x->length, y->word, y->length);
}

// Spells a number in syllables, each number differently.
static size_t spell(char *out, uint32_t number) {
    size_t length = 0;
    do {
        out[length++] = "bcdfgklmnprstvwz"[number % 80 / 5];
        out[length++] = "aeiou"[number % 5];
        number /= 80;
    } while (number);
    return length;
}

static void write_chapter(char *end, uint64_t *rng, uint64_t *used, size_t different) {
    for (size_t i = 0; i < CHAPTER; i++) { // few words often, many seldom
        double u = rng_between(rng, 0.0, 1.0);
        size_t number = (size_t)(u * u * u * u * (double)different);
        used[number]++;
        size_t length = spell(end, (uint32_t)number);
        if (i % 13 == 0)
            *end = (char)(*end + 'A' - 'a');
        end += length;
        if (i % 17 == 0)
            *end++ = '.';
        *end++ = i % 11 == 10 ? '\n' : ' ';
    }
    *end = 0;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "word_count");
    size_t chapters = at_least(1, 285 * scale), different = 8000, length;
    uint64_t *used = allocate(different, sizeof *used), rng = 16, hash, counted = 0, sum = 0;
    char *text = allocate(CHAPTER + 1, LONGEST);
    Table table = {allocate(1024, sizeof(Entry *)), 1024, 0};
    for (size_t chapter = 0; chapter < chapters; chapter++) {
        write_chapter(text, &rng, used, different);
        for (const char *at = text; next_word(&at, &length, &hash); at += length) {
            find(&table, at, length, hash)->count++;
            counted++;
        }
    }
    if (counted != chapters * CHAPTER)
        fail("%" PRIu64 " of %zu words counted", counted, chapters * CHAPTER);
    Entry **all = allocate(table.used, sizeof *all);
    size_t listed = 0;
    for (size_t i = 0; i < table.size; i++)
        for (Entry *e = table.slots[i]; e; e = e->next)
            all[listed++] = e;
    qsort(all, listed, sizeof(Entry *), by_count);
    for (size_t i = 0; i < TOP && i < listed; i++)
        sum = mix(mix(sum, all[i]->hash), all[i]->count);

    size_t entries = table.used;
    for (size_t n = 0; n < different; n++) {
        char word[LONGEST] = {0};
        const char *at = word;
        spell(word, (uint32_t)n);
        if (!used[n])
            continue;
        entries--;
        next_word(&at, &length, &hash);
        if (find(&table, at, length, hash)->count != used[n])
            fail("%s was not counted %" PRIu64 " times", word, used[n]);
    }
    if (entries)
        fail("%zu words that are not in the text", entries);
    return finish(sum);
}
