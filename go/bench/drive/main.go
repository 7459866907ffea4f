// Command drive runs the benchmarks of quaver-go: servers and programs of the stock toolchain, of the paper's policy
// and of ours, in turns, on one core, while it sends from another. bench/README.md says what comes out.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"time"

	"quaver.dev/go/bench/client"
)

// A variant is a toolchain and a setting of QUAVER_GO.
type variant struct {
	name, toolchain, setting string
}

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
	Machine map[string]any     `json:"machine"`
	Rows    []row              `json:"rows"`
	Compute []cost             `json:"compute"`
	Mutex   map[string]float64 `json:"mutex_pair_ns"`
	Summary summary            `json:"summary"`
}

type summary struct {
	RateAtSLO map[string]float64            `json:"rate_at_slo"`
	Ratios    map[string]float64            `json:"ratios"`
	Aims      map[string]map[string]float64 `json:"aims"`
}

type options struct {
	bin      string
	quick    bool
	only     string
	quantum  string
	also     string // settings of one more variant
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
	o := options{out: report{Mutex: map[string]float64{}, Summary: summary{
		RateAtSLO: map[string]float64{}, Ratios: map[string]float64{}, Aims: map[string]map[string]float64{}}}}
	file := flag.String("json", "", "the file for the results; none if empty")
	flag.StringVar(&o.bin, "bin", "", "the folder with the programs, in stock/ and quaver/")
	flag.BoolVar(&o.quick, "quick", false, "a minute or two, to see that everything works")
	flag.StringVar(&o.only, "only", "", "workloads separated by commas: bimodal, badger1, badger4, sleeper, compute, mutex; all if empty")
	flag.StringVar(&o.quantum, "quantum", "50us", "the quantum")
	flag.StringVar(&o.also, "also", "", "one more variant: QUAVER_GO besides the quantum, such as tax=100")
	flag.IntVar(&o.reps, "reps", 0, "how often everything is measured; 0: 5, or 1 if quick")
	flag.DurationVar(&o.length, "length", 0, "of one measurement; 0: 2s, or 700ms if quick")
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
		{"compute", o.compute},
		{"mutex", o.mutex},
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
	o.server, o.client = "0", strconv.Itoa(min(1, runtime.NumCPU()-1))
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
		"cores": runtime.NumCPU(), "go": strings.TrimSpace(string(version)), "server_core": o.server, "client_core": o.client,
		"quantum": o.quantum, "repetitions": o.reps, "seconds": o.length.Seconds(), "quick": o.quick,
	}
	return nil
}

func (o *options) variants() []variant {
	list := []variant{
		{"stock", "stock", ""},
		{"paper", "quaver", "quantum=" + o.quantum + ",policy=paper"},
		{"quaver", "quaver", "quantum=" + o.quantum},
	}
	if o.also != "" {
		list = append(list, variant{o.also, "quaver", "quantum=" + o.quantum + "," + o.also})
	}
	return list
}

// command returns a program of a variant that runs on the server's core.
func (o *options) command(v variant, program string, args ...string) *exec.Cmd {
	args = append([]string{"-c", o.server, filepath.Join(o.bin, v.toolchain, program)}, args...)
	cmd := exec.Command("taskset", args...)
	cmd.Env = append(os.Environ(), "QUAVER_GO="+v.setting, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	return cmd
}

// A server is a running one, and the words that it has printed.
type server struct {
	cmd   *exec.Cmd
	stdin io.Closer
	words []string
}

func (o *options) start(v variant, program string, args ...string) (*server, error) {
	cmd := o.command(v, program, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s (%s) did not start: %w", program, v.name, err)
	}
	return &server{cmd, stdin, strings.Fields(line)}, nil
}

func (s *server) stop() {
	s.stdin.Close()
	s.cmd.Wait()
}

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

// sweep sends to a server of each variant, at each rate, in turns. If search is set, it then measures at more rates,
// until it is known at which each variant stops keeping the objective.
func (o *options) sweep(workload string, search bool, rates []float64, args []string, proto func(*server) client.Protocol) error {
	all := o.variants()
	servers := make([]*server, len(all))
	for i, v := range all {
		s, err := o.start(v, workload, args...)
		if err != nil {
			return err
		}
		defer s.stop()
		servers[i] = s
	}
	protocol := proto(servers[0])       // the same work for all
	at := func(rates []float64) error { // one for each variant; 0: none
		wanted := []int{}
		for i, rate := range rates {
			if rate > 0 {
				wanted = append(wanted, i)
			}
		}
		points, err := o.turns(wanted, func(i, rep int) (sample, error) {
			before := o.measure(servers[i].cmd.Process.Pid)
			r, err := client.Run(servers[i].words[0], protocol, client.Load{
				Rate: rates[i], Duration: o.length, Warmup: o.length / 5, Long: .01, Seed: int64(rep%o.reps + 1), Conns: 256,
			})
			if err != nil {
				return sample{}, err
			}
			others := before.others(o.measure(servers[i].cmd.Process.Pid))
			return sample{r, math.Max(others, 100*r.Stalled.Seconds()/o.length.Seconds())}, nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", workload, err)
		}
		for _, i := range wanted {
			o.print(points[i].rows(o.reps, workload, all[i].name, rates[i], [2]string{"short", "long"}))
		}
		return nil
	}
	next := make([]float64, len(all))
	for _, rate := range rates {
		for i := range next {
			next[i] = rate
		}
		if err := at(next); err != nil {
			return err
		}
	}
	for more := search; more; {
		more = false
		for i, v := range all {
			next[i] = between(limit(o.out.Rows, workload, v.name))
			more = more || next[i] > 0
		}
		if err := at(next); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) print(rows []row) {
	for _, r := range rows {
		o.out.Rows = append(o.out.Rows, r)
		fmt.Fprintf(os.Stderr, "%-8s %-7s %6.0f/s %-6s p50 %7.0f  p99 %7.0f (%.0f-%.0f)  p99.9 %7.0f µs, %d unfinished, %d late, others %.0f %%\n",
			r.Workload, r.Variant, r.Rate, r.Class, value(r.P50), value(r.P99), value(r.P99Min), value(r.P99Max), value(r.P999),
			r.Unfinished, r.Late, r.Others)
	}
}

func (o *options) bimodal() error {
	out, err := o.command(o.variants()[0], "bimodal", "-calibrate").Output()
	if err != nil {
		return fmt.Errorf("cannot calibrate: %w", err)
	}
	if o.perUs, err = strconv.ParseFloat(strings.TrimSpace(string(out)), 64); err != nil {
		return err
	}
	o.out.Machine["rounds_per_us"] = o.perUs
	return o.sweep("bimodal", true, o.rates, nil, func(*server) client.Protocol {
		return client.Raw{ShortRounds: int(5 * o.perUs), LongRounds: int(800 * o.perUs)}
	})
}

func (o *options) badger(program string) error {
	rates := []float64{4000, 8000, 12000, 16000}
	if o.quick {
		rates = []float64{4000, 12000}
	}
	if o.given {
		rates = o.rates
	}
	args := []string{"-keys", strconv.FormatUint(o.keys, 10)}
	return o.sweep(program, false, rates, args, func(s *server) client.Protocol {
		scan, _ := strconv.Atoi(s.words[1])
		o.out.Machine[program+"_scan_keys"] = scan
		return client.HTTP{Keys: o.keys, Scan: scan}
	})
}

func (o *options) sleeper() error {
	all := o.variants()
	everyone := make([]int, len(all))
	for i := range everyone {
		everyone[i] = i
	}
	points, err := o.turns(everyone, func(i, _ int) (sample, error) {
		before := o.measure()
		cmd := o.command(all[i], "sleeper", "-for", (2 * o.length).String())
		out, err := cmd.Output()
		if err != nil {
			return sample{}, err
		}
		after := o.measure()
		after.ours += cmd.ProcessState.UserTime().Seconds()*100 + cmd.ProcessState.SystemTime().Seconds()*100
		r := new(client.Result)
		for _, word := range strings.Fields(string(out)) {
			us, err := strconv.ParseFloat(word, 64)
			if err != nil {
				return sample{}, err
			}
			r.Short = append(r.Short, us)
		}
		sort.Float64s(r.Short)
		return sample{r, before.others(after)}, nil
	})
	if err != nil {
		return err
	}
	for i, v := range all {
		o.print(points[i].rows(o.reps, "sleeper", v.name, 1000, [2]string{"sleep", ""}))
	}
	return nil
}

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
			return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
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

func (o *options) mutex() error {
	all := append(o.variants(), variant{"off", "quaver", ""})
	lists := map[string][]float64{}
	for rep := 0; rep < 2*o.reps+1; rep++ {
		for _, v := range all {
			out, err := o.command(v, "compute", "mutex").Output()
			if err != nil {
				return err
			}
			ns, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
			if err != nil {
				return err
			}
			lists[v.name] = append(lists[v.name], ns)
		}
	}
	for _, v := range all {
		o.out.Mutex[v.name] = *median(lists[v.name])
		fmt.Fprintf(os.Stderr, "mutex   %-7s %.1f ns\n", v.name, o.out.Mutex[v.name])
	}
	return nil
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

func median(list []float64) *float64 {
	if len(list) == 0 {
		return nil
	}
	sorted := append([]float64{}, list...)
	sort.Float64s(sorted)
	return &sorted[len(sorted)/2]
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
