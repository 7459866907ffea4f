package main

import (
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"

	"quaver.dev/go/bench/client"
)

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

func (o *options) sleeper() error { return o.lateness("sleeper", "sleeper") }

func (o *options) parts() error {
	for _, scene := range []string{"lock", "syscall", "effort", "plain", "pause", "collect"} {
		if err := o.lateness(scene, "parts", scene); err != nil {
			return err
		}
	}
	return nil
}

// lateness runs a program that prints times.
func (o *options) lateness(name, program string, args ...string) error {
	all := o.variants()
	everyone := make([]int, len(all))
	for i := range everyone {
		everyone[i] = i
	}
	points, err := o.turns(everyone, func(i, _ int) (sample, error) {
		before := o.measure()
		cmd := o.command(all[i], program, append([]string{"-for", (2 * o.length).String()}, args...)...)
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
		o.print(points[i].rows(o.reps, name, v.name, 1000, [2]string{"sleep", ""}))
	}
	return nil
}
