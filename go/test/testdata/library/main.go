// Command library prints what the library says; the caller knows what it must be.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
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
		var profile strings.Builder
		pprof.Lookup("goroutine").WriteTo(&profile, 1)
		fmt.Println("profile", strings.Contains(profile.String(), `"quaver":"best-effort"`))
	})
	fmt.Println("after", quaver.SetBestEffort(false))
	quavervar.Publish()
	variables := httptest.NewServer(http.DefaultServeMux) // expvar has put itself there
	defer variables.Close()
	reply, err := http.Get(variables.URL + "/debug/vars")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reply.Body.Close()
	var all struct {
		Quaver struct {
			Enabled bool
			Quantum int64  `json:"quantum_ns"`
			Asked   *int64 `json:"asked"`
			Price   *int64 `json:"price_ns"`
		}
	}
	err = json.NewDecoder(reply.Body).Decode(&all)
	q := all.Quaver
	fmt.Println("published", err, q.Enabled, q.Quantum, q.Asked != nil, q.Price != nil)
}
