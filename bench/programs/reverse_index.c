// From the links in generated HTML pages to an index: for each address the pages that link to it, in order.
#include "common.h"

enum { LONGEST = 64, FILLERS = 6, LINKS = 25 };

typedef struct {
    char *url;
    uint64_t hash;
    uint32_t *pages;
    size_t links, space;
} Entry;

typedef struct {
    Entry **slots; // open addressing; size is a power of two
    size_t size, used;
} Index;

static uint64_t hash_of(const char *s, size_t length) {
    uint64_t h = 0xcbf29ce484222325u; // FNV-1a
    for (size_t i = 0; i < length; i++)
        h = (h ^ (uint8_t)s[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

static Entry **slot_of(Entry **slots, size_t size, const char *url, size_t length, uint64_t hash) {
    size_t i = hash & (size - 1);
    while (slots[i] && !(slots[i]->hash == hash && !strncmp(slots[i]->url, url, length) && !slots[i]->url[length]))
        i = (i + 1) & (size - 1);
    return &slots[i];
}

static void grow(Index *index) {
    Entry **slots = allocate(index->size * 2, sizeof *slots);
    for (size_t i = 0; i < index->size; i++) {
        Entry *e = index->slots[i];
        if (e)
            *slot_of(slots, index->size * 2, e->url, strlen(e->url), e->hash) = e;
    }
    free(index->slots);
    index->slots = slots;
    index->size *= 2;
}

static void add_link(Index *index, const char *url, size_t length, uint32_t page) {
    uint64_t hash = hash_of(url, length);
    Entry **slot = slot_of(index->slots, index->size, url, length, hash), *e = *slot;
    if (!e) {
        e = *slot = allocate(1, sizeof *e);
        e->url = allocate(length + 1, 1);
        memcpy(e->url, url, length);
        e->hash = hash;
        if (++index->used * 2 > index->size)
            grow(index);
    }
    if (e->links == e->space) {
        e->space = e->space ? 2 * e->space : 4;
        e->pages = realloc(e->pages, e->space * sizeof *e->pages);
        if (!e->pages)
            fail("no memory for %zu links", e->space);
    }
    e->pages[e->links++] = page;
}

static bool space(char c) { return c == ' ' || c == '\n' || c == '\t'; }

// Adds the links of one page: the href of each <a>, quoted either way.
static void parse(Index *index, const char *html, const char *end, uint32_t page) {
    while ((html = memchr(html, '<', (size_t)(end - html)))) {
        html++;
        bool anchor = (*html == 'a' || *html == 'A') && space(html[1]);
        while (html < end && *html != '>') {
            while (html < end && !space(*html) && *html != '>')
                html++; // over the tag's name, or the value before
            while (space(*html))
                html++;
            const char *name = html;
            while (html < end && *html != '=' && *html != '>' && !space(*html))
                html++;
            if (*html != '=')
                continue;
            size_t name_length = (size_t)(html++ - name);
            char quote = *html;
            if (quote != '"' && quote != '\'')
                continue;
            const char *value = ++html;
            while (html < end && *html != quote)
                html++;
            if (anchor && name_length == 4 && !memcmp(name, "href", 4))
                add_link(index, value, (size_t)(html - value), page);
        }
    }
}

static int by_url(const void *a, const void *b) {
    return strcmp((*(Entry *const *)a)->url, (*(Entry *const *)b)->url);
}

static int by_page(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// Appends a string, or a number's digits; both return the end.
static char *put(char *at, const char *text) {
    while (*text)
        *at++ = *text++;
    return at;
}

static char *put_number(char *at, uint32_t number) {
    if (number >= 10)
        at = put_number(at, number / 10);
    *at++ = (char)('0' + number % 10);
    return at;
}

static char *put_url(char *at, uint32_t number) {
    at = put_number(put(at, "http://www.site"), number % 97);
    at = put(at, number % 3 ? ".example/news/page" : ".example/archive/page");
    return put(put_number(at, number), ".html");
}

// Writes a page of links to random addresses among other tags, and counts them. Returns its end.
static char *write_page(char *at, uint64_t *rng, size_t urls, uint64_t *expected) {
    static const char *const filler[FILLERS] = {"<p class=\"text\">Some words, 3 &lt; 4,\nand more of them.</p>",
                                                "<img src='a.png' href=\"not-this\">",
                                                "<a name=\"here\">href=\"nor-this\"</a>",
                                                "<br/>",
                                                "<h2>A title with a few words</h2>\n",
                                                "<td align=left>1</td>"};
    at = put(at, "<html><body>\n");
    for (int i = 0; i < LINKS; i++) {
        double u = rng_between(rng, 0.0, 1.0);
        uint32_t number = (uint32_t)(u * u * (double)urls);
        expected[number]++;
        at = put(at, filler[rng_below(rng, FILLERS)]);
        at = put_url(put(at, i % 3 ? "<a href=\"" : "<A class='x' href='"), number);
        at = put(at, i % 3 ? "\">link</a>" : "'>link</a>");
    }
    *at = 0;
    return at;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "reverse_index");
    size_t pages = at_least(4, 150000 * scale), urls = at_least(20, 10000 * scale);
    uint64_t *expected = allocate(urls, sizeof *expected), rng = 18, sum = 0;
    char *html = allocate(LINKS, LONGEST * 3);
    Index index = {allocate(1024, sizeof(Entry *)), 1024, 0};
    for (size_t i = 0; i < pages; i++) { // in no order
        uint32_t page = (uint32_t)((i * 7919 + 13) % pages);
        parse(&index, html, write_page(html, &rng, urls, expected), page);
    }
    Entry **all = allocate(index.used, sizeof *all);
    size_t listed = 0;
    for (size_t i = 0; i < index.size; i++)
        if (index.slots[i])
            all[listed++] = index.slots[i];
    qsort(all, listed, sizeof *all, by_url);
    size_t found = 0;
    for (size_t i = 0; i < listed; i++) {
        Entry *e = all[i];
        qsort(e->pages, e->links, sizeof *e->pages, by_page);
        found += e->links;
        for (size_t k = 1; k < e->links; k++)
            if (e->pages[k - 1] > e->pages[k])
                fail("the pages of %s are not in order", e->url);
        if (i && strcmp(all[i - 1]->url, e->url) >= 0)
            fail("%s comes after %s", e->url, all[i - 1]->url);
        sum = mix(mix(sum, e->hash), e->links);
        sum = mix(sum, e->pages[e->links / 2]);
    }
    if (found != pages * LINKS)
        fail("%zu links instead of %zu", found, pages * LINKS);
    for (size_t n = 0; n < urls; n++) {
        char url[LONGEST];
        size_t length = (size_t)(put_url(url, (uint32_t)n) - url);
        const Entry *e = *slot_of(index.slots, index.size, url, length, hash_of(url, length));
        if ((e ? e->links : 0) != expected[n])
            fail("%s has not %" PRIu64 " links", url, expected[n]);
    }
    return finish(sum);
}
