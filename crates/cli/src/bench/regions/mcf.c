// Flows of least cost through random networks: shortest paths by pointers from node to node, as SPEC's mcf follows them.
#include "common.h"

enum { NODES = 4000, ARCS = 5, SUPPLY = 60 };

typedef struct Arc {
    struct Node *to;
    struct Arc *back, *next;
    int64_t cost;
    int32_t room;
} Arc;

typedef struct Node {
    Arc *first, *reached_by;
    int64_t potential, distance;
    size_t place; // in the heap, from 1; 0: not in it
} Node;

static Node nodes[NODES], *heap[NODES + 1];
static Arc arcs[2 * NODES * ARCS];
static size_t heaped, arc_count;

static void connect(Node *from, Node *to, int64_t cost, int32_t room) {
    Arc *forth = &arcs[arc_count++], *back = &arcs[arc_count++];
    *forth = (Arc){to, back, from->first, cost, room};
    *back = (Arc){from, forth, to->first, -cost, 0};
    from->first = forth, to->first = back;
}

static void put(size_t place, Node *node) {
    heap[place] = node;
    node->place = place;
}

static void rise(Node *node) {
    size_t place = node->place;
    for (; place > 1 && heap[place / 2]->distance > node->distance; place /= 2)
        put(place, heap[place / 2]);
    put(place, node);
}

static Node *take_nearest(void) {
    Node *nearest = heap[1], *last = heap[heaped--];
    size_t place = 1;
    for (size_t child; (child = 2 * place) <= heaped; place = child) {
        if (child < heaped && heap[child + 1]->distance < heap[child]->distance)
            child++;
        if (heap[child]->distance >= last->distance)
            break;
        put(place, heap[child]);
    }
    if (heaped)
        put(place, last);
    nearest->place = 0;
    return nearest;
}

// Distances from the first node by costs that potentials make positive; is there a way to the last?
static bool find_ways(void) {
    for (size_t i = 0; i < NODES; i++)
        nodes[i].distance = INT64_MAX, nodes[i].reached_by = NULL, nodes[i].place = 0;
    nodes[0].distance = 0;
    heaped = 1;
    put(1, &nodes[0]);
    while (heaped) {
        Node *node = take_nearest();
        for (Arc *arc = node->first; arc; arc = arc->next) {
            int64_t distance = node->distance + arc->cost + node->potential - arc->to->potential;
            if (arc->room == 0 || distance >= arc->to->distance)
                continue;
            arc->to->distance = distance;
            arc->to->reached_by = arc;
            if (!arc->to->place)
                arc->to->place = ++heaped;
            rise(arc->to);
        }
    }
    return nodes[NODES - 1].reached_by;
}

static int64_t send(void) {
    int32_t room = INT32_MAX;
    int64_t cost = 0;
    for (Arc *arc = nodes[NODES - 1].reached_by; arc; arc = arc->back->to->reached_by)
        room = arc->room < room ? arc->room : room;
    for (Arc *arc = nodes[NODES - 1].reached_by; arc; arc = arc->back->to->reached_by) {
        arc->room -= room;
        arc->back->room += room;
        cost += room * arc->cost;
    }
    return cost;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "mcf");
    size_t networks = at_least(1, 60 * scale);
    uint64_t rng = 41, sum = 0;
    for (size_t network = 0; network < networks; network++) {
        memset(nodes, 0, sizeof nodes);
        arc_count = 0;
        for (size_t i = 0; i < NODES; i++) // most arcs lead a little way forward
            for (int a = 0; a < ARCS; a++) {
                size_t to = a ? i + 1 + rng_below(&rng, NODES / 20) : rng_below(&rng, NODES);
                if (to < NODES && to != i)
                    connect(&nodes[i], &nodes[to], 1 + rng_below(&rng, 1000), 1 + (int32_t)rng_below(&rng, 9));
            }
        int64_t cost = 0, again = 0;
        for (int way = 0; way < SUPPLY && find_ways(); way++) {
            cost += send();
            for (size_t i = 0; i < NODES; i++)
                if (nodes[i].distance < INT64_MAX)
                    nodes[i].potential += nodes[i].distance;
        }
        // What comes goes on, but at both ends.
        for (size_t i = 0; i < NODES; i++) {
            int64_t left = 0;
            for (Arc *arc = nodes[i].first; arc; arc = arc->next) {
                bool forth = arc < arc->back;
                int64_t flow = forth ? arc->back->room : -(int64_t)arc->room;
                left += flow;
                again += forth ? flow * arc->cost : 0;
            }
            if (i && i < NODES - 1 && left)
                fail("network %zu: %" PRId64 " stays at node %zu", network, left, i);
        }
        if (again != cost || cost <= 0)
            fail("network %zu: a cost of %" PRId64 " instead of %" PRId64, network, again, cost);
        sum = mix(sum, (uint64_t)cost);
    }
    return finish(sum);
}
