package main

import (
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
)

// A row is one class of requests at one rate: medians over the repetitions, and the spread of the p99.
type row struct {
	Workload   string   `json:"workload"`
	Variant    string   `json:"variant"`
	Rate       float64  `json:"rate"`
	Class      string   `json:"class"`
	P50        *float64 `json:"p50_us"`
	P99        *float64 `json:"p99_us"`
	P999       *float64 `json:"p999_us"`
	P99Min     *float64 `json:"p99_min_us"`
	P99Max     *float64 `json:"p99_max_us"`
	Requests   int      `json:"requests"`
	Unfinished int      `json:"unfinished"`
	Late       int      `json:"late"`
	Others     float64  `json:"others_percent"` // of the two cores, in the worst of the measurements that count
}

// A cost is the CPU time of a program relative to the stock toolchain's.
type cost struct {
	Program  string  `json:"program"`
	Variant  string  `json:"variant"`
	Quantum  float64 `json:"quantum_us"`
	Slowdown float64 `json:"slowdown_percent"`
	Min      float64 `json:"min_percent"`
	Max      float64 `json:"max_percent"`
}

type report struct {
	Machine map[string]any `json:"machine"`
	Rows    []row          `json:"rows"`
	Compute []cost         `json:"compute"`
	Micro   []step         `json:"micro"`
	Summary summary        `json:"summary"`
}

type summary struct {
	RateAtSLO map[string]float64            `json:"rate_at_slo"`
	Ratios    map[string]float64            `json:"ratios"`
	Aims      map[string]map[string]float64 `json:"aims"`
}

// summarise compares the results with the aims.
func (o *options) summarise() {
	s := &o.out.Summary
	for _, r := range o.out.Rows {
		if r.Workload == "bimodal" {
			s.RateAtSLO[r.Variant], _ = limit(o.out.Rows, r.Workload, r.Variant)
		}
	}
	aim := func(name string, have, want float64, atLeast bool) {
		if math.IsNaN(have) || math.IsInf(have, 0) {
			return
		}
		met := 0.0
		if (have >= want) == atLeast || have == want {
			met = 1
		}
		s.Aims[name] = map[string]float64{"have": have, "want": want, "met": met}
	}
	ratio := func(name string, a, b, want float64, atLeast bool) {
		if v := a / b; !math.IsNaN(v) && !math.IsInf(v, 0) {
			s.Ratios[name] = v
			aim(name, v, want, atLeast)
		}
	}
	at := s.RateAtSLO
	ratio("rate_at_slo_quaver_to_stock", at["quaver"], at["stock"], 3.5, true)
	ratio("rate_at_slo_quaver_to_paper", at["quaver"], at["paper"], 1.2, true)
	p99 := map[string]float64{}
	for _, r := range o.out.Rows {
		if strings.HasPrefix(r.Workload, "badger") && r.Class == "short" { // the highest rate wins
			p99[r.Workload+r.Variant] = value(r.P99)
		}
		if r.Workload == "sleeper" && r.Variant == "quaver" {
			aim("sleeper_p99_us", value(r.P99), 500, false)
		}
	}
	for _, b := range []string{"badger1", "badger4"} {
		ratio(b+"_get_p99_quaver_to_stock", p99[b+"quaver"], p99[b+"stock"], 0.4, false)
	}
	worst := math.Inf(-1)
	for _, c := range o.out.Compute {
		if c.Variant == "quaver" && c.Quantum == 100 {
			worst = math.Max(worst, c.Slowdown)
		}
	}
	aim("compute_slowdown_percent_at_100us", worst, 5, false)
	for _, v := range []string{"stock", "paper", "quaver"} {
		if rate, ok := at[v]; ok {
			fmt.Fprintf(os.Stderr, "rate at p99 <= 1 ms: %-7s %6.0f/s\n", v, rate)
		}
	}
	names := []string{}
	for name := range s.Aims {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		a := s.Aims[name]
		fmt.Fprintf(os.Stderr, "aim %-36s have %8.2f, want %8.2f: %s\n", name, a["have"], a["want"], map[float64]string{0: "missed", 1: "met"}[a["met"]])
	}
}
