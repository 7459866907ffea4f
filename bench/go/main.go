// Command quaver-go-peer does the operations of `quaver bench` in Go.
//
//	quaver-go-peer SPEC
//
// SPEC is JSON, for example
//
//	{"benchmark":"ops","op":"yield","warmup_ms":20,"measure_ms":100}
//
// and the answer is one line of JSON. What the operations are, and on which terms, is said in
// bench/common/src/spec.rs; the form of the answer in bench/common/src/outcome.rs. Who starts the process decides
// where it runs. Only the standard library is used; `quaver bench` carries these files and builds them with `go build`.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// spec is the union of what the benchmarks need.
type spec struct {
	Benchmark  string  `json:"benchmark"`
	Op         string  `json:"op"`
	WarmupMs   int64   `json:"warmup_ms"`
	MeasureMs  int64   `json:"measure_ms"`
	Hogs       int     `json:"hogs"`
	SleepUs    int64   `json:"sleep_us"`
	DurationMs int64   `json:"duration_ms"`
	Threads    int     `json:"threads"`
	Workers    int     `json:"workers"`
	Ring       string  `json:"ring"`
	Keys       int     `json:"keys"`
	GetNs      float64 `json:"get_ns"`
	ScanNs     float64 `json:"scan_ns"`
	Service    string  `json:"service"`
	ComputeNs  float64 `json:"compute_ns"`

	Answers    string    `json:"answers"`
	ValueBytes int       `json:"value_bytes"`
	KernelNs   []float64 `json:"kernel_ns"`
}

// sample is one measurement.
type sample struct {
	Ops     uint64             `json:"ops"`
	CPUNs   int64              `json:"cpu_ns"`
	WallNs  int64              `json:"wall_ns"`
	Metrics map[string]float64 `json:"metrics"`
	Notes   []string           `json:"notes,omitempty"`
}

// unsupported is the error of something that this program does not do.
type unsupported string

func (u unsupported) Error() string { return string(u) }

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: quaver-go-peer SPEC")
		os.Exit(2)
	}
	var s spec
	if err := json.Unmarshal([]byte(os.Args[1]), &s); err != nil {
		fmt.Fprintln(os.Stderr, "the argument is no spec:", err)
		os.Exit(2)
	}
	answer(run(s))
}

func run(s spec) (sample, error) {
	runtime.GOMAXPROCS(1)
	switch s.Benchmark {
	case "ops":
		return ops(s)
	case "wake":
		return wake(s), nil
	case "parked":
		return parked(s.Threads), nil
	case "throughput":
		runtime.GOMAXPROCS(s.Workers)
		return throughput(s)
	case "kv-ring":
		return serveRing(s)
	case "serve":
		return sample{}, serveMessages(s)
	case "answer":
		return sample{}, serveAnswers(s)
	default:
		return sample{}, unsupported("no benchmark " + s.Benchmark)
	}
}

func answer(result sample, err error) {
	var line any = result
	if u, ok := err.(unsupported); ok {
		line = map[string]string{"unsupported": string(u)}
	} else if err != nil {
		line = map[string]string{"error": err.Error()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
