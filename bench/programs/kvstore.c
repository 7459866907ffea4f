// A store of records in two balanced trees, by name and by number: put, get, delete and scan. The trees compare and
// visit records through functions that they are given.
#include "common.h"

enum { NAME = 24, SCAN = 20 };

typedef struct {
    char name[NAME];
    uint64_t number, value;
    bool stored;
} Record;

typedef struct Node {
    struct Node *left, *right;
    int level;
    Record *record;
} Node;

// An AA tree (Andersson 1993): a red-black tree whose red children are all right ones.
typedef struct {
    Node *root;
    size_t count;
    int (*compare)(const Record *, const Record *);
} Tree;

static int by_name(const Record *a, const Record *b) { return strcmp(a->name, b->name); }
static int by_number(const Record *a, const Record *b) { return (a->number > b->number) - (a->number < b->number); }

static Node *skew(Node *n) {
    if (!n || !n->left || n->left->level != n->level)
        return n;
    Node *left = n->left;
    n->left = left->right;
    left->right = n;
    return left;
}

static Node *split(Node *n) {
    if (!n || !n->right || !n->right->right || n->right->right->level != n->level)
        return n;
    Node *right = n->right;
    n->right = right->left;
    right->left = n;
    right->level++;
    return right;
}

static Node *insert(Tree *tree, Node *n, Record *record) {
    if (!n) {
        n = allocate(1, sizeof *n);
        n->level = 1;
        n->record = record;
        tree->count++;
        return n;
    }
    int order = tree->compare(record, n->record);
    if (order == 0)
        return n;
    if (order < 0)
        n->left = insert(tree, n->left, record);
    else
        n->right = insert(tree, n->right, record);
    return split(skew(n));
}

static Node *erase(Tree *tree, Node *n, const Record *record) {
    if (!n)
        return NULL;
    int order = tree->compare(record, n->record);
    if (order < 0) {
        n->left = erase(tree, n->left, record);
    } else if (order > 0) {
        n->right = erase(tree, n->right, record);
    } else if (!n->left && !n->right) {
        free(n);
        tree->count--;
        return NULL;
    } else { // takes the next or the last record's place
        Node *other = n->left ? n->left : n->right;
        while (n->left ? other->right : other->left)
            other = n->left ? other->right : other->left;
        n->record = other->record;
        if (n->left)
            n->left = erase(tree, n->left, n->record);
        else
            n->right = erase(tree, n->right, n->record);
    }
    int left = n->left ? n->left->level : 0, right = n->right ? n->right->level : 0;
    int level = (left < right ? left : right) + 1;
    if (level < n->level) {
        n->level = level;
        if (right > level)
            n->right->level = level;
        n = skew(n);
        n->right = skew(n->right);
        if (n->right)
            n->right->right = skew(n->right->right);
        n = split(n);
        n->right = split(n->right);
    }
    return n;
}

static Record *find(const Tree *tree, const Record *record) {
    for (const Node *n = tree->root; n;) {
        int order = tree->compare(record, n->record);
        if (order == 0)
            return n->record;
        n = order < 0 ? n->left : n->right;
    }
    return NULL;
}

// Visits the records from the given one on, in order, until the visitor returns false.
static bool scan(const Tree *tree, const Node *n, const Record *from, bool (*visit)(Record *, void *), void *state) {
    if (!n)
        return true;
    int order = from ? tree->compare(from, n->record) : -1;
    if (order < 0 && !scan(tree, n->left, from, visit, state))
        return false;
    if (order <= 0 && !visit(n->record, state))
        return false;
    return scan(tree, n->right, order <= 0 ? NULL : from, visit, state);
}

typedef struct {
    const Tree *tree;
    const Record *first, *last;
    size_t left, seen;
    uint64_t sum;
} Visit;

static bool add_up(Record *record, void *state) {
    Visit *visit = state;
    if (visit->last && visit->tree->compare(visit->last, record) >= 0)
        fail("%s comes after %s", record->name, visit->last->name);
    visit->last = record;
    if (!visit->first)
        visit->first = record;
    visit->sum = mix(visit->sum, record->value);
    visit->seen++;
    return --visit->left > 0;
}

// The height in levels, which must fall by one or, to the right, stay.
static void check_levels(const Node *n) {
    if (!n)
        return;
    int left = n->left ? n->left->level : 0, right = n->right ? n->right->level : 0;
    if (left != n->level - 1 || (right != n->level && right != n->level - 1))
        fail("a node of level %d has children of %d and %d", n->level, left, right);
    if (n->right && n->right->right && n->right->right->level == n->level)
        fail("three nodes of level %d in a row", n->level);
    check_levels(n->left);
    check_levels(n->right);
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "kvstore");
    size_t count = at_least(100, 10000 * scale), operations = at_least(1000, 4000000 * scale), stored = 0;
    Record *records = allocate(count, sizeof *records);
    Tree trees[2] = {{NULL, 0, by_name}, {NULL, 0, by_number}};
    uint64_t rng = 25, sum = 0;
    for (size_t i = 0; i < count; i++) { // names with much in common
        records[i].number = rng_next(&rng);
        snprintf(records[i].name, NAME, "user/%03u/%" PRIx32, rng_below(&rng, 500), (uint32_t)i * 2654435761u);
    }
    for (size_t op = 0; op < operations; op++) {
        Record *record = &records[rng_below(&rng, (uint32_t)count)];
        Tree *tree = &trees[rng_below(&rng, 2)];
        uint32_t kind = rng_below(&rng, 100);
        if (kind < 30 && !record->stored) {
            record->value = op;
            for (int t = 0; t < 2; t++)
                trees[t].root = insert(&trees[t], trees[t].root, record);
            record->stored = true;
            stored++;
        } else if (kind >= 30 && kind < 45 && record->stored) {
            for (int t = 0; t < 2; t++)
                trees[t].root = erase(&trees[t], trees[t].root, record);
            record->stored = false;
            stored--;
        } else if (kind >= 45 && kind < 55) {
            Visit visit = {.tree = tree, .left = SCAN, .sum = sum};
            scan(tree, tree->root, record, add_up, &visit);
            if (record->stored && visit.first != record)
                fail("a scan from %s starts elsewhere", record->name);
            sum = visit.sum;
        } else {
            const Record *found = find(tree, record);
            if (found != (record->stored ? record : NULL))
                fail("%s is %s", record->name, found ? "there but deleted" : "missing");
            sum = mix(sum, found ? found->value : 0);
        }
    }
    for (int t = 0; t < 2; t++) {
        Visit all = {.tree = &trees[t], .left = count + 1, .sum = sum};
        scan(&trees[t], trees[t].root, NULL, add_up, &all);
        check_levels(trees[t].root);
        if (all.seen != stored || trees[t].count != stored)
            fail("%zu of %zu records in a tree that counts %zu", all.seen, stored, trees[t].count);
        sum = all.sum;
    }
    return finish(sum);
}
