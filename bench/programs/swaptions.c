// The prices of swaptions by Monte Carlo simulation of the forward curve (Heath, Jarrow and Morton; three factors).
#include "common.h"

enum { PERIODS = 20, FACTORS = 3, SWAPTIONS = 8 };

static const double period = 0.5;

typedef struct {
    int expiry; // in periods
    double strike, price, error;
} Swaption;

static double curve[PERIODS];
static double volatility[FACTORS][PERIODS]; // by periods to maturity
static double drift[PERIODS];

// The normal distribution's inverse by rational functions (Acklam), right to 1e-9 of the result.
static double inverse_normal(double p) {
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02,
                               1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                               6.680131188771972e+01, -1.328068155288572e+01};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                               -2.549732539343734e+00, 4.374664141464968e+00, 2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                               3.754408661907416e+00};
    double tail = p < 0.5 ? p : 1.0 - p;
    if (tail < 0.02425) {
        double q = sqrt(-2.0 * log(tail));
        double x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
                   ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1.0);
        return p < 0.5 ? x : -x;
    }
    double q = p - 0.5, r = q * q;
    return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
           (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1.0);
}

static void build(void) {
    double sums[FACTORS] = {0}, before = 0.0;
    for (int j = 0; j < PERIODS; j++) {
        double age = period * j;
        curve[j] = 0.03 + 0.002 * age - 0.00008 * age * age;
        volatility[0][j] = 0.008;
        volatility[1][j] = 0.006 / (1.0 + 0.5 * age);
        volatility[2][j] = 0.004 * (1.0 - 0.15 * age);
        // The drift that makes discounted bonds martingales in these very steps.
        double after = 0.0;
        for (int f = 0; f < FACTORS; f++) {
            sums[f] += volatility[f][j] * period;
            after += 0.5 * sums[f] * sums[f];
        }
        drift[j] = (after - before) / period;
        before = after;
    }
}

// One path up to the expiry: forward[j] is then the rate of period j. Returns the discount factor to the expiry.
static double simulate(uint64_t *rng, int expiry, double forward[PERIODS]) {
    double rates = curve[0] * period, root = sqrt(period);
    memcpy(forward, curve, sizeof curve);
    for (int i = 1; i <= expiry; i++) {
        double shock[FACTORS];
        for (int f = 0; f < FACTORS; f++)
            shock[f] = root * inverse_normal(rng_between(rng, 0x1p-54, 1.0 - 0x1p-54));
        for (int j = i; j < PERIODS; j++) {
            double change = drift[j - i] * period;
            for (int f = 0; f < FACTORS; f++)
                change += volatility[f][j - i] * shock[f];
            forward[j] += change;
        }
        if (i < expiry)
            rates += forward[i] * period;
    }
    return exp(-rates);
}

// What the right to pay the strike from the expiry to the last period is worth then; *bond: the last period's bond.
static double payoff(const Swaption *s, const double forward[PERIODS], double *bond) {
    double rates = 0.0, annuity = 0.0;
    for (int j = s->expiry; j < PERIODS; j++) {
        rates += forward[j] * period;
        *bond = exp(-rates);
        annuity += *bond * period;
    }
    double value = 1.0 - *bond - s->strike * annuity;
    return value > 0.0 ? value : 0.0;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "swaptions");
    size_t trials = at_least(100, 290000 * scale);
    build();
    for (int i = 1; i < 1000; i++) {
        double p = i / 1000.0, back = 0.5 * erfc(-inverse_normal(p) / sqrt(2.0));
        if (!(fabs(back - p) < 1e-8))
            fail("the inverse of the normal distribution at %g is that of %g", p, back);
    }
    double today = 0.0, total = 0.0;
    for (int j = 0; j < PERIODS; j++)
        today += curve[j] * period;
    today = exp(-today);
    uint64_t rng = 21;
    for (int k = 0; k < SWAPTIONS; k++) {
        Swaption s = {.expiry = 3 + k, .strike = 0.025 + 0.003 * k};
        double sum = 0.0, squares = 0.0, bonds = 0.0, bond_squares = 0.0;
        for (size_t trial = 0; trial < trials; trial++) {
            double forward[PERIODS], bond = 1.0, discount = simulate(&rng, s.expiry, forward);
            double value = discount * payoff(&s, forward, &bond);
            sum += value;
            squares += value * value;
            bonds += discount * bond;
            bond_squares += discount * bond * discount * bond;
        }
        double n = (double)trials;
        s.price = sum / n;
        s.error = sqrt((squares / n - s.price * s.price) / n);
        double mean = bonds / n, error = sqrt((bond_squares / n - mean * mean) / n);
        if (!(fabs(mean - today) < 5.0 * error))
            fail("the last bond costs %g instead of %g, 5 errors of %g off", mean, today, error);
        if (!(s.price > 0.0 && s.error < 0.3 * s.price))
            fail("swaption %d: a price of %g +- %g", k, s.price, s.error);
        total += s.price;
    }
    return finish_rounded(total);
}
