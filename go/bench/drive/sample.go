package main

import (
	"fmt"
	"math"
	"sort"

	"quaver.dev/go/bench/client"
)

// A sample is one measurement, and the percentage of the two cores that others had, or of the time that the client did
// not run.
type sample struct {
	result *client.Result
	others float64
}

// point collects the repetitions of one variant at one rate.
type point []sample

// quiet returns the n samples with the least of others.
func (p point) quiet(n int) point {
	sorted := append(point{}, p...)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].others < sorted[j].others })
	return sorted[:min(n, len(sorted))]
}

// enough reports whether n samples are quiet enough.
func (p point) enough(n int) bool {
	return len(p) >= n*mostTries || (len(p) >= n && p.quiet(n)[n-1].others <= quietEnough)
}

// rows makes a row of each class with a name.
func (p point) rows(n int, workload, variant string, rate float64, classes [2]string) (rows []row) {
	counted := p.quiet(n)
	for class, name := range classes {
		if name == "" {
			continue
		}
		r := row{Workload: workload, Variant: variant, Rate: rate, Class: name}
		var q [3][]float64
		for _, s := range counted {
			list := [2][]float64{s.result.Short, s.result.Long}[class]
			for i, quantile := range []float64{.5, .99, .999} {
				if v := client.Quantile(list, quantile); !math.IsNaN(v) {
					q[i] = append(q[i], v)
				}
			}
			r.Requests += len(list)
			r.Unfinished += s.result.Unfinished
			r.Late += s.result.Late
			r.Others = math.Max(r.Others, s.others)
		}
		r.P50, r.P99, r.P999, r.P99Min, r.P99Max = median(q[0]), median(q[1]), median(q[2]), least(q[1]), most(q[1])
		rows = append(rows, r)
	}
	return rows
}

// turns measures those variants that are wanted in turns, in another order each time, until each has been measured
// often and quietly enough.
func (o *options) turns(wanted []int, once func(variant, rep int) (sample, error)) ([]point, error) {
	all := o.variants()
	points := make([]point, len(all))
	for rep, again := 0, true; again; rep++ {
		again = false
		for k := range wanted {
			i := wanted[(k+rep)%len(wanted)]
			if points[i].enough(o.reps) {
				continue
			}
			o.await()
			s, err := once(i, rep)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", all[i].name, err)
			}
			points[i] = append(points[i], s)
			again = true
		}
	}
	return points, nil
}

func median(list []float64) *float64 { return quantile(list, .5) }

func quantile(list []float64, q float64) *float64 {
	if len(list) == 0 {
		return nil
	}
	sorted := append([]float64{}, list...)
	sort.Float64s(sorted)
	return &sorted[int(float64(len(sorted))*q)]
}

func least(list []float64) *float64 {
	if len(list) == 0 {
		return nil
	}
	v := list[0]
	for _, x := range list {
		v = math.Min(v, x)
	}
	return &v
}

func most(list []float64) *float64 {
	if len(list) == 0 {
		return nil
	}
	v := list[0]
	for _, x := range list {
		v = math.Max(v, x)
	}
	return &v
}

func value(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}
