package overlay

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the runtime has around the account, for a program in which nothing but the account is the real thing.
const aroundTheAccount = `package main

import "fmt"

type price struct{ ns counter }
type counter int64

func (c *counter) Load() int64 { return int64(*c) }

var gomaxprocs int32 = 2
var quaver = struct{ tax int64; spin bool }{tax: 10}
var quaverClock struct {
	price, askPrice         price
	floor, account, settled int64
}

func check(what string, got, want int64) {
	if got != want {
		panic(fmt.Sprintf("%s: %d, not %d", what, got, want))
	}
}

func main() {
	c := &quaverClock
	c.price.ns, c.askPrice.ns = 20_000, 10_000
	quaverFloor()
	check("ns between wake-ups of 20 us for 10 percent", c.floor, 200_000)

	// Two Ps at work for a millisecond pay 10 percent of it each.
	quaverEarn(1_000_000, 0)
	check("paid in by work", c.account, 200_000)
	check("no pause while there is something left", quaverSpend(3), c.floor)
	check("three preemptions and a wake-up", c.account, 150_000)
	quaverSpend(30)
	check("debts are bounded", c.account, -quaverDebts)
	// What is missing comes in at 2 P * 10 percent.
	check("pause of one in debt", quaverSpend(0), quaverDebts*100/20)

	// An idle P's time goes there as a whole, up to the savings.
	c.account = 0
	quaverEarn(2_000_000, 1)
	check("paid in by one idle P and one at work", c.account, 1_100_000)
	quaverEarn(1_000_000_000, 2)
	check("savings are bounded", c.account, 2*quaverSavings)

	// A whole second of work under requests without end: no more than the tax, the savings and the debts are spent.
	now, spent := int64(1_000_000_000), int64(0)
	for end := now + 1_000_000_000; now < end; {
		quaverEarn(now, 0)
		pause := quaverSpend(5)
		spent += 20_000 + 5*10_000
		now += max(pause, 20_000)
	}
	if most := int64(2*1_000_000_000/10) + 2*quaverSavings + quaverDebts + 70_000; spent > most {
		panic(fmt.Sprintf("%d ns spent, of %d", spent, most))
	}

	quaver.tax = 100
	quaverFloor()
	check("no bound", c.floor, 0)
	quaver.tax, quaver.spin = 10, true
	quaverFloor()
	check("a clock that spins is never woken", c.floor, 0)
	fmt.Println("ok")
}
`

// The account of the tax is arithmetic: it is tried as such, in a program of its own.
func TestTax(t *testing.T) {
	text, err := ours.ReadFile("_runtime/zquaver_tax.go")
	if err != nil {
		t.Fatal(err)
	}
	account := strings.NewReplacer("package runtime", "package main", "//go:nowritebarrierrec", "").Replace(string(text))
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module tax.test\n\ngo 1.21\n", "main.go": aroundTheAccount, "tax.go": account} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command("go", "run", ".")
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
