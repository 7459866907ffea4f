// Command library prints what the library says; the caller knows what it must be.
package main

import (
	"context"
	"expvar"
	"fmt"
	"runtime/pprof"
	"time"

	quaver "quaver.dev/go"
	"quaver.dev/go/quavervar"
)

func main() {
	fmt.Println("enabled", quaver.Enabled())
	fmt.Println("quantum", quaver.Quantum())
	fmt.Println("set", quaver.SetQuantum(70*time.Microsecond), quaver.Quantum())
	quaver.SetQuantum(time.Microsecond)
	fmt.Println("smallest", quaver.Quantum())
	quaver.SetQuantum(time.Hour)
	fmt.Println("largest", quaver.Quantum())
	quaver.SetQuantum(-1)
	fmt.Println("negative", quaver.Quantum())
	quaver.BestEffort(context.Background(), func(ctx context.Context) {
		label, _ := pprof.Label(ctx, "quaver")
		fmt.Println("label", label, "marked", quaver.SetBestEffort(true))
	})
	fmt.Println("after", quaver.SetBestEffort(false))
	quavervar.Publish()
	fmt.Println("published", len(expvar.Get("quaver").String()) > 50)
}
