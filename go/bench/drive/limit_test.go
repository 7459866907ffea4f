package main

import (
	"math"
	"testing"
)

// measured returns rows of a variant whose p99 is what f says, beside rows that are none of its business.
func measured(f func(rate float64) float64, rates ...float64) (rows []row) {
	for _, rate := range rates {
		us, none := f(rate), 5e6
		rows = append(rows,
			row{Workload: "bimodal", Variant: "a", Rate: rate, Class: "short", P99: &us},
			row{Workload: "bimodal", Variant: "a", Rate: rate, Class: "long", P99: &none},
			row{Workload: "bimodal", Variant: "b", Rate: rate, Class: "short", P99: &none},
			row{Workload: "badger1", Variant: "a", Rate: rate, Class: "short", P99: &none})
	}
	return rows
}

func TestLimit(t *testing.T) {
	p99 := map[float64]float64{1: 10, 2: 1000, 3: 1001, 4: 500}
	at := func(rate float64) float64 { return p99[rate] }
	for _, c := range []struct {
		rates     []float64
		good, bad float64
	}{
		{nil, 0, math.Inf(1)},
		{[]float64{1, 2}, 2, math.Inf(1)},
		{[]float64{3}, 0, 3},
		{[]float64{1, 2, 3, 4}, 2, 3}, // what is beyond the first that fails does not count
		{[]float64{4, 1, 3}, 1, 3},    // in whatever order they were measured
	} {
		if good, bad := limit(measured(at, c.rates...), "bimodal", "a"); good != c.good || bad != c.bad {
			t.Errorf("%v: %v and %v, not %v and %v", c.rates, good, bad, c.good, c.bad)
		}
	}
	unanswered := []row{{Workload: "bimodal", Variant: "a", Rate: 7, Class: "short"}}
	if good, bad := limit(unanswered, "bimodal", "a"); good != 0 || bad != 7 {
		t.Errorf("nothing was answered: %v and %v", good, bad)
	}
}

// search does what sweep does, with a variant that keeps the objective up to a rate.
func search(t *testing.T, most float64, rates ...float64) (good, bad float64) {
	p99 := func(rate float64) float64 {
		if rate <= most {
			return slo
		}
		return slo + 1
	}
	rows := measured(p99, rates...)
	for steps := 0; ; steps++ {
		good, bad = limit(rows, "bimodal", "a")
		rate := between(good, bad)
		if rate == 0 {
			return good, bad
		}
		if steps == 20 {
			t.Fatalf("%v is searched for from %v without an end, now between %v and %v", most, rates, good, bad)
		}
		rows = append(rows, measured(p99, rate)...)
	}
}

// Whatever the rates to start with, the same limit is found.
func TestSearch(t *testing.T) {
	for _, rates := range [][]float64{{4000, 16000, 28000, 42000}, {2000, 8000, 12000, 30000}, {42000}} {
		for _, most := range []float64{600, 4000, 8500, 9999, 23456, 41000} {
			good, bad := search(t, most, rates...)
			if good > most || bad <= most || bad-good > resolution*bad {
				t.Errorf("from %v: %v lies between %v and %v", rates, most, good, bad)
			}
		}
	}
	if good, bad := search(t, 1e6, 1000, 2000); good != 2000 || !math.IsInf(bad, 1) {
		t.Errorf("all rates are good: %v and %v", good, bad)
	}
	if good, bad := search(t, 0, 1000, 2000); good != 0 || bad > lowest {
		t.Errorf("no rate is good: %v and %v", good, bad)
	}
}
