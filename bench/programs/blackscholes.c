// The prices of European options by the Black-Scholes formula.
#include "common.h"

enum { OPTIONS = 20000 };

typedef struct {
    double spot, strike, rate, volatility, years;
    bool put;
} Option;

// The normal distribution by a polynomial (Abramowitz and Stegun 26.2.17), right to 1e-7.
static double normal(double x) {
    double size = fabs(x), k = 1.0 / (1.0 + 0.2316419 * size);
    double poly = 1.330274429;
    poly = poly * k - 1.821255978;
    poly = poly * k + 1.781477937;
    poly = poly * k - 0.356563782;
    poly = poly * k + 0.319381530;
    double tail = 0.39894228040143268 * exp(-0.5 * size * size) * poly * k;
    return x < 0.0 ? tail : 1.0 - tail;
}

static double price(const Option *o) {
    double spread = o->volatility * sqrt(o->years);
    double d1 = (log(o->spot / o->strike) + (o->rate + 0.5 * o->volatility * o->volatility) * o->years) / spread;
    double n1 = normal(d1), n2 = normal(d1 - spread), future = o->strike * exp(-o->rate * o->years);
    return o->put ? future * (1.0 - n2) - o->spot * (1.0 - n1) : o->spot * n1 - future * n2;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "blackscholes");
    size_t runs = at_least(1, 1500 * scale);
    Option *options = allocate(OPTIONS, sizeof *options);
    double *prices = allocate(OPTIONS, sizeof *prices), total = 0.0;
    uint64_t rng = 19;
    for (int i = 0; i < OPTIONS; i += 2) { // a call and a put each
        Option *o = &options[i];
        o->spot = rng_between(&rng, 20.0, 120.0);
        o->strike = o->spot * rng_between(&rng, 0.7, 1.4);
        o->rate = rng_between(&rng, 0.0, 0.1);
        o->volatility = rng_between(&rng, 0.05, 0.6);
        o->years = rng_between(&rng, 0.1, 2.0);
        options[i + 1] = *o;
        options[i + 1].put = true;
    }
    for (size_t run = 0; run < runs; run++)
        for (int i = 0; i < OPTIONS; i++) {
            prices[i] = price(&options[i]);
            options[i].rate += 1e-9; // the next run's market
        }
    for (int i = 0; i < OPTIONS; i += 2) {
        Option o = options[i];
        o.rate -= 1e-9;
        total += prices[i] + prices[i + 1];
        double parity = o.spot - o.strike * exp(-o.rate * o.years);
        if (!(fabs(prices[i] - prices[i + 1] - parity) < 1e-9 * o.spot))
            fail("option %d: call less put is %g instead of %g", i, prices[i] - prices[i + 1], parity);
        double spread = o.volatility * sqrt(o.years), root = sqrt(0.5);
        double d1 = (log(o.spot / o.strike) + o.rate * o.years) / spread + 0.5 * spread;
        double exact = 0.5 * o.spot * erfc(-d1 * root) -
                       0.5 * o.strike * exp(-o.rate * o.years) * erfc(-(d1 - spread) * root);
        if (!(fabs(prices[i] - exact) < 1e-6 * o.spot))
            fail("option %d: %.9g instead of %.9g", i, prices[i], exact);
    }
    return finish_rounded(total);
}
