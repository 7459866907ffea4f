package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A step is what one small operation of a variant costs beside the stock toolchain's.
type step struct {
	Operation string  `json:"operation"`
	Variant   string  `json:"variant"`
	Ns        float64 `json:"ns"`
	Slower    float64 `json:"slower_percent"` // median of the turns, and their quartiles
	Low       float64 `json:"low_percent"`
	High      float64 `json:"high_percent"`
	Turns     int     `json:"turns"`
}

// A batcher is a running program that does a batch for each line.
type batcher struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// batch returns the ns of an operation in one more batch.
func (b *batcher) batch() (float64, error) {
	if _, err := io.WriteString(b.in, "\n"); err != nil {
		return 0, err
	}
	line, err := b.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(line), 64)
}

// micro measures small operations. All variants, each linked in several orders of its functions, run a short batch in
// each turn: where functions lie matters more than what is measured, and so does what else the machine does.
func (o *options) micro() error {
	all := append(o.variants(), variant{"off", "quaver", ""})
	layouts, length := 0, 30*time.Second
	for ; exists(fmt.Sprintf("%s/stock/micro-%d", o.bin, layouts)); layouts++ {
	}
	if o.quick {
		length = time.Second
	}
	for _, operation := range []string{"mutex", "rwmutex", "gosched", "channel", "select", "spawn"} {
		if err := o.operation(operation, all, layouts, length); err != nil {
			return fmt.Errorf("%s: %w", operation, err)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (o *options) operation(operation string, all []variant, layouts int, length time.Duration) error {
	batchers := make([]*batcher, 0, len(all)*layouts)
	for i := 0; i < cap(batchers); i++ {
		b := &batcher{cmd: o.command(all[i%len(all)], fmt.Sprintf("micro-%d", i/len(all)), operation)}
		in, err := b.cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := b.cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := b.cmd.Start(); err != nil {
			return err
		}
		defer b.cmd.Wait()
		defer in.Close()
		b.in, b.out = in, bufio.NewReader(out)
		if _, err := b.batch(); err != nil { // the first is for the caches
			return err
		}
		batchers = append(batchers, b)
	}
	costs := make([][]float64, len(all)) // a sum over the layouts for each turn
	random := rand.New(rand.NewSource(1))
	for end := time.Now().Add(length); time.Now().Before(end) || len(costs[0]) < 3; {
		sums := make([]float64, len(all))
		for _, i := range random.Perm(len(batchers)) {
			ns, err := batchers[i].batch()
			if err != nil {
				return err
			}
			sums[i%len(all)] += ns
		}
		for i, sum := range sums {
			costs[i] = append(costs[i], sum/float64(layouts))
		}
	}
	for i, v := range all {
		slower := []float64{}
		for turn, ns := range costs[i] {
			slower = append(slower, (ns/costs[0][turn]-1)*100)
		}
		s := step{operation, v.name, *median(costs[i]), *quantile(slower, .5), *quantile(slower, .25), *quantile(slower, .75), len(slower)}
		o.out.Micro = append(o.out.Micro, s)
		fmt.Fprintf(os.Stderr, "%-8s %-7s %7.2f ns  %+6.2f %% (%+.2f to %+.2f), %d turns\n", s.Operation, s.Variant, s.Ns, s.Slower, s.Low,
			s.High, s.Turns)
	}
	return nil
}
