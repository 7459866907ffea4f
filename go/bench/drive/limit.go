package main

import "math"

// The rate at which a variant stops keeping the objective, to within a few percent. The rates that all variants are
// measured at are far apart; a ratio of two of them says more about the choice of rates than about the variants.

const (
	slo        = 1000 // µs that the p99 of short requests must not exceed
	resolution = .04  // of the rate; the p99 of one rate differs by more between repetitions
	lowest     = 500  // requests a second; the p99 of fewer is that of a handful
)

// limit returns the highest rate up to which a variant keeps the objective, or 0, and the lowest at which it does not,
// or infinity.
func limit(rows []row, workload, variant string) (good, bad float64) {
	bad = math.Inf(1)
	each := func(f func(row)) {
		for _, r := range rows {
			if r.Workload == workload && r.Variant == variant && r.Class == "short" {
				f(r)
			}
		}
	}
	each(func(r row) {
		if !(value(r.P99) <= slo) { // not a number: nothing was answered
			bad = math.Min(bad, r.Rate)
		}
	})
	each(func(r row) {
		if r.Rate < bad {
			good = math.Max(good, r.Rate)
		}
	})
	return good, bad
}

// between returns the rate to measure next, or 0 if what limit returned is near enough or there is nothing to search
// between.
func between(good, bad float64) float64 {
	if math.IsInf(bad, 1) || bad <= lowest || bad-good <= resolution*bad {
		return 0
	}
	rate := math.Round((good + bad) / 2)
	if rate <= good || rate >= bad {
		return 0
	}
	return rate
}
