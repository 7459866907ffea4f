package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// compute measures the CPU time of programs with each quantum, relative to the stock toolchain's in the same turn.
func (o *options) compute() error {
	programs := []string{"loop", "nbody", "sha256", "sort", "fib"}
	quanta := []float64{200, 100, 50, 20}
	if o.quick {
		programs, quanta = programs[:2], []float64{100}
	}
	policies := map[string]string{"paper": ",policy=paper", "quaver": "", "off": ""}
	reps := 2*o.reps + 1
	for _, program := range programs {
		type key struct {
			policy  string
			quantum float64
		}
		keys := []key{{"off", 0}}
		for _, q := range quanta {
			keys = append(keys, key{"paper", q}, key{"quaver", q})
		}
		slow := map[key][]float64{}
		once := func(v variant) (float64, error) {
			out, err := o.command(v, "compute", program).Output()
			if err != nil {
				return 0, err
			}
			us, _, _ := strings.Cut(string(out), " ")
			return strconv.ParseFloat(us, 64)
		}
		for rep := 0; rep < reps; rep++ {
			base, err := once(variant{"stock", "stock", ""})
			if err != nil {
				return err
			}
			for _, k := range keys {
				us, err := once(variant{k.policy, "quaver", fmt.Sprintf("quantum=%.0fus%s", k.quantum, policies[k.policy])})
				if err != nil {
					return err
				}
				slow[k] = append(slow[k], (us/base-1)*100)
			}
		}
		for _, k := range keys {
			c := cost{program, k.policy, k.quantum, *median(slow[k]), *least(slow[k]), *most(slow[k])}
			o.out.Compute = append(o.out.Compute, c)
			fmt.Fprintf(os.Stderr, "%-7s %-7s %4.0f µs: %6.1f %% (%.1f to %.1f)\n", c.Program, c.Variant, c.Quantum, c.Slowdown, c.Min, c.Max)
		}
	}
	return nil
}
