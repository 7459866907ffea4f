// Command drive runs the benchmarks of quaver-go: servers and programs of the stock toolchain, of the paper's policy
// and of ours, in turns, on one core, while it sends from another. bench/README.md says what comes out.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

type options struct {
	bin      string
	quick    bool
	only     string
	quantum  string
	also     []string // settings, each of one more variant
	server   string
	client   string
	reps     int
	length   time.Duration
	patience time.Duration
	keys     uint64
	rates    []float64
	given    bool // the user has chosen the rates
	perUs    float64
	out      report
}

func main() {
	o := options{out: report{Summary: summary{
		RateAtSLO: map[string]float64{}, Ratios: map[string]float64{}, Aims: map[string]map[string]float64{}}}}
	file := flag.String("json", "", "the file for the results; none if empty")
	flag.StringVar(&o.bin, "bin", "", "the folder with the programs, in stock/ and quaver/")
	flag.BoolVar(&o.quick, "quick", false, "a minute or two, to see that everything works")
	flag.StringVar(&o.only, "only", "", "workloads separated by commas: bimodal, badger1, badger4, sleeper, parts, compute, micro; all if empty")
	flag.StringVar(&o.quantum, "quantum", "50us", "the quantum")
	flag.Func("also", "one more variant: QUAVER_GO besides the quantum, such as tax=100; can be given several times", func(settings string) error {
		o.also = append(o.also, settings)
		return nil
	})
	flag.IntVar(&o.reps, "reps", 0, "how often everything is measured; 0: 5, or 1 if quick")
	flag.DurationVar(&o.length, "length", 0, "of one measurement; 0: 2s, or 700ms if quick")
	flag.StringVar(&o.client, "client", "1", "the core that this process runs on; servers run on core 0")
	flag.DurationVar(&o.patience, "patience", 0, "how long to wait before each measurement for others to leave the cores alone")
	niceness := flag.Int("niceness", 0, "of this process, for the record")
	rates := flag.String("rates", "", "requests a second, separated by commas, in ascending order")
	flag.Parse()
	check(o.prepare(*rates))
	o.out.Machine["niceness"] = *niceness
	steps := []struct {
		name string
		run  func() error
	}{
		{"bimodal", o.bimodal},
		{"badger1", func() error { return o.badger("badger1") }},
		{"badger4", func() error { return o.badger("badger4") }},
		{"sleeper", o.sleeper},
		{"parts", o.parts},
		{"compute", o.compute},
		{"micro", o.micro},
	}
	for _, s := range steps {
		if o.only == "" || strings.Contains(","+o.only+",", ","+s.name+",") {
			fmt.Fprintf(os.Stderr, "== %s\n", s.name)
			check(s.run())
		}
	}
	o.summarise()
	text, err := json.MarshalIndent(o.out, "", "  ")
	check(err)
	if *file != "" {
		check(os.WriteFile(*file, append(text, '\n'), 0o666))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func (o *options) prepare(rates string) error {
	if o.bin == "" {
		return fmt.Errorf("no folder of programs; use bench/run, which builds them")
	}
	o.server = "0"
	if o.reps == 0 {
		o.reps = 5
		if o.quick {
			o.reps = 1
		}
	}
	if o.length == 0 {
		o.length = 2 * time.Second
		if o.quick {
			o.length = 700 * time.Millisecond
		}
	}
	o.keys = 1_000_000
	o.rates = []float64{2000, 4000, 6000, 8000, 10000, 12000, 15000, 18000, 21000, 24000, 27000, 30000, 33000, 36000, 39000, 42000}
	if o.quick {
		o.keys = 50_000
		o.rates = []float64{4000, 16000, 28000}
	}
	if rates != "" {
		o.rates, o.given = nil, true
		for _, r := range strings.Split(rates, ",") {
			n, err := strconv.ParseFloat(r, 64)
			if err != nil || n <= 0 {
				return fmt.Errorf("%q is not a rate", r)
			}
			if len(o.rates) > 0 && n <= o.rates[len(o.rates)-1] {
				return fmt.Errorf("rates do not ascend: %s", rates)
			}
			o.rates = append(o.rates, n)
		}
	}
	version, _ := exec.Command("go", "env", "GOVERSION").Output()
	o.out.Machine = map[string]any{
		"go": strings.TrimSpace(string(version)), "server_core": o.server, "client_core": o.client,
		"quantum": o.quantum, "repetitions": o.reps, "seconds": o.length.Seconds(), "quick": o.quick,
	}
	return nil
}
