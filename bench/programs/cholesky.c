// Sparse Cholesky decompositions, row by row, of the equations of a grid ordered by nested dissection.
#include "common.h"

static int side, n;
static int *rank_of; // by point of the grid: its number in the order of elimination
// The matrix's upper triangle by columns, then the factor's lower one.
static int *a_start, *a_row, *parent, *l_row;
static double *a_value, *l_value;
static size_t *l_start, *l_end;

// Numbers the points of a rectangle: two halves, then the line between them.
static int dissect(int x0, int x1, int y0, int y1, int next) {
    if (x0 >= x1 || y0 >= y1)
        return next;
    bool wide = x1 - x0 >= y1 - y0;
    int middle = wide ? (x0 + x1) / 2 : (y0 + y1) / 2;
    if (wide) {
        next = dissect(x0, middle, y0, y1, next);
        next = dissect(middle + 1, x1, y0, y1, next);
        for (int y = y0; y < y1; y++)
            rank_of[y * side + middle] = next++;
    } else {
        next = dissect(x0, x1, y0, middle, next);
        next = dissect(x0, x1, middle + 1, y1, next);
        for (int x = x0; x < x1; x++)
            rank_of[middle * side + x] = next++;
    }
    return next;
}

static void build_matrix(void) {
    uint64_t rng = 9;
    int *point = allocate((size_t)n, sizeof *point), filled = 0;
    for (int p = 0; p < n; p++)
        point[rank_of[p]] = p;
    a_start = allocate((size_t)n + 1, sizeof *a_start);
    a_row = allocate((size_t)n * 5, sizeof *a_row);
    a_value = allocate((size_t)n * 5, sizeof *a_value);
    for (int k = 0; k < n; k++) {
        int x = point[k] % side, y = point[k] / side;
        a_start[k] = filled;
        a_row[filled] = k;
        a_value[filled++] = 5.0;
        const int near[4][2] = {{x - 1, y}, {x + 1, y}, {x, y - 1}, {x, y + 1}};
        for (int q = 0; q < 4; q++) {
            if (near[q][0] < 0 || near[q][0] >= side || near[q][1] < 0 || near[q][1] >= side)
                continue;
            int other = rank_of[near[q][1] * side + near[q][0]];
            if (other < k) {
                a_row[filled] = other;
                a_value[filled++] = rng_between(&rng, -1.2, -0.8);
            }
        }
    }
    a_start[n] = filled;
    free(point);
}

// The elimination tree: a column's parent is the first row below the diagonal of the factor.
static void build_tree(void) {
    int *ancestor = allocate((size_t)n, sizeof *ancestor);
    parent = allocate((size_t)n, sizeof *parent);
    for (int k = 0; k < n; k++) {
        parent[k] = ancestor[k] = -1;
        for (int p = a_start[k]; p < a_start[k + 1]; p++)
            for (int i = a_row[p], next; i >= 0 && i < k; i = next) {
                next = ancestor[i];
                ancestor[i] = k;
                if (next < 0)
                    parent[i] = k;
            }
    }
    free(ancestor);
}

// Row k of the factor: puts its columns into list[top..n - 1], each behind those it depends on. mark: n numbers.
static int reach(int k, int *list, int *mark) {
    int top = n;
    mark[k] = k + 1;
    for (int p = a_start[k]; p < a_start[k + 1]; p++) {
        int length = 0;
        for (int i = a_row[p]; mark[i] != k + 1; i = parent[i]) {
            list[length++] = i;
            mark[i] = k + 1;
        }
        while (length > 0)
            list[--top] = list[--length];
    }
    return top;
}

// Counts the factor's columns and makes room for them.
static void count_columns(void) {
    int *list = allocate((size_t)n, sizeof *list), *mark = allocate((size_t)n, sizeof *mark);
    l_start = allocate((size_t)n + 1, sizeof *l_start);
    l_end = allocate((size_t)n, sizeof *l_end);
    for (int k = 0; k < n; k++) {
        l_start[k + 1]++;
        for (int t = reach(k, list, mark); t < n; t++)
            l_start[list[t] + 1]++;
    }
    for (int k = 0; k < n; k++)
        l_start[k + 1] += l_start[k];
    l_row = allocate(l_start[n], sizeof *l_row);
    l_value = allocate(l_start[n], sizeof *l_value);
    free(list);
    free(mark);
}

static void decompose(void) {
    int *list = allocate((size_t)n, sizeof *list), *mark = allocate((size_t)n, sizeof *mark);
    double *x = allocate((size_t)n, sizeof *x);
    memcpy(l_end, l_start, (size_t)n * sizeof *l_end);
    for (int k = 0; k < n; k++) {
        int top = reach(k, list, mark);
        for (int p = a_start[k]; p < a_start[k + 1]; p++)
            x[a_row[p]] = a_value[p];
        double diagonal = x[k];
        x[k] = 0.0;
        for (; top < n; top++) {
            int i = list[top];
            double value = x[i] / l_value[l_start[i]];
            x[i] = 0.0;
            for (size_t p = l_start[i] + 1; p < l_end[i]; p++)
                x[l_row[p]] -= l_value[p] * value;
            diagonal -= value * value;
            l_row[l_end[i]] = k;
            l_value[l_end[i]++] = value;
        }
        if (!(diagonal > 0.0))
            fail("column %d is not positive definite", k);
        l_row[l_end[k]] = k;
        l_value[l_end[k]++] = sqrt(diagonal);
    }
    free(list);
    free(mark);
    free(x);
}

// Solves equations of which the solution is known. Returns a checksum of the solution.
static uint64_t solve(uint64_t *rng) {
    uint64_t sum = 0;
    double *wanted = allocate((size_t)n, sizeof *wanted), *b = allocate((size_t)n, sizeof *b);
    for (int i = 0; i < n; i++)
        wanted[i] = rng_between(rng, -1.0, 1.0);
    for (int k = 0; k < n; k++)
        for (int p = a_start[k]; p < a_start[k + 1]; p++) {
            b[a_row[p]] += a_value[p] * wanted[k];
            if (a_row[p] != k)
                b[k] += a_value[p] * wanted[a_row[p]];
        }
    for (int k = 0; k < n; k++) {
        b[k] /= l_value[l_start[k]];
        for (size_t p = l_start[k] + 1; p < l_end[k]; p++)
            b[l_row[p]] -= l_value[p] * b[k];
    }
    for (int k = n - 1; k >= 0; k--) {
        for (size_t p = l_start[k] + 1; p < l_end[k]; p++)
            b[k] -= l_value[p] * b[l_row[p]];
        b[k] /= l_value[l_start[k]];
    }
    for (int k = 0; k < n; k++) {
        if (!(fabs(b[k] - wanted[k]) < 1e-9))
            fail("x[%d] is %.12g instead of %.12g", k, b[k], wanted[k]);
        sum = mix_double(sum, b[k]);
    }
    free(wanted);
    free(b);
    return sum;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "cholesky");
    side = (int)at_least(10, 160 * cbrt(sqrt(scale)));
    size_t rounds = at_least(1, 40 * sqrt(scale));
    n = side * side;
    rank_of = allocate((size_t)n, sizeof *rank_of);
    if (dissect(0, side, 0, side, 0) != n)
        fail("the order misses points");
    build_matrix();
    build_tree();
    count_columns();
    uint64_t rng = 10, sum = 0;
    for (size_t round = 0; round < rounds; round++) {
        decompose();
        sum = mix(sum, solve(&rng));
        for (int k = 0; k < n; k++) // another matrix with the same pattern
            a_value[a_start[k]] = 5.0 + 0.1 * (double)(round + 1);
    }
    return finish(sum);
}
