// Command corpus runs small programs whose output depends on nothing but their code: preemption must not change a byte of it.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/big"
	"math/rand"
	"os"
	"regexp"
	"sort"
	"strings"
	"sync"
	"text/template"
)

var programs = map[string]func(io.Writer){
	"sieve":    sieve,
	"nbody":    nbody,
	"tree":     tree,
	"pi":       pi,
	"json":     roundTrip,
	"gzip":     compress,
	"words":    words,
	"matrix":   matrix,
	"pipeline": pipeline,
	"panics":   panics,
}

func main() {
	if len(os.Args) == 1 {
		names := []string{}
		for name := range programs {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			fmt.Printf("== %s\n", name)
			programs[name](os.Stdout)
		}
		return
	}
	for _, name := range os.Args[1:] {
		programs[name](os.Stdout)
	}
}

// sieve is a chain of goroutines, one for each prime.
func sieve(w io.Writer) {
	numbers := make(chan int)
	go func(out chan<- int) {
		for i := 2; ; i++ {
			out <- i
		}
	}(numbers)
	for i := 0; i < 300; i++ {
		prime := <-numbers
		fmt.Fprint(w, prime, " ")
		next := make(chan int)
		go func(prime int, in <-chan int, out chan<- int) {
			for n := range in {
				if n%prime != 0 {
					out <- n
				}
			}
		}(prime, numbers, next)
		numbers = next
	}
	fmt.Fprintln(w)
}

// nbody is floating point in loops without calls, in several goroutines with the same result.
func nbody(w io.Writer) {
	results := make([]float64, 6)
	var wait sync.WaitGroup
	for g := range results {
		wait.Add(1)
		go func(g int) {
			defer wait.Done()
			x, v := [3]float64{1, 0, 0}, [3]float64{0, 0.9, 0.1}
			for i := 0; i < 400_000; i++ {
				r2 := x[0]*x[0] + x[1]*x[1] + x[2]*x[2]
				f := -1 / (r2 * math.Sqrt(r2)) * 1e-3
				for k := range x {
					v[k] += f * x[k]
					x[k] += v[k] * 1e-3
				}
			}
			results[g] = x[0] + 2*x[1] + 3*x[2]
		}(g)
	}
	wait.Wait()
	for _, r := range results {
		fmt.Fprintf(w, "%x\n", math.Float64bits(r))
	}
}

// tree hashes in a tree of goroutines.
func tree(w io.Writer) {
	var hash func(depth int, seed byte) [32]byte
	hash = func(depth int, seed byte) [32]byte {
		if depth == 0 {
			return sha256.Sum256(bytes.Repeat([]byte{seed}, 20_000))
		}
		left := make(chan [32]byte)
		go func() { left <- hash(depth-1, seed*2) }()
		right := hash(depth-1, seed*2+1)
		l := <-left
		return sha256.Sum256(append(l[:], right[:]...))
	}
	fmt.Fprintf(w, "%x\n", hash(9, 1))
}

// pi is big-number arithmetic in assembly.
func pi(w io.Writer) {
	arctan := func(x int64, unity *big.Int) *big.Int {
		sum, power := new(big.Int), new(big.Int).Div(unity, big.NewInt(x))
		square := big.NewInt(x * x)
		for n, sign := int64(1), int64(1); power.Sign() != 0; n, sign = n+2, -sign {
			term := new(big.Int).Div(power, big.NewInt(n))
			sum.Add(sum, term.Mul(term, big.NewInt(sign)))
			power.Div(power, square)
		}
		return sum
	}
	unity := new(big.Int).Exp(big.NewInt(10), big.NewInt(2010), nil)
	a := arctan(5, unity)
	a.Mul(a, big.NewInt(4))
	a.Sub(a, arctan(239, unity))
	a.Mul(a, big.NewInt(4))
	fmt.Fprintln(w, a.String()[:2000])
}

// roundTrip is reflection, maps and garbage.
func roundTrip(w io.Writer) {
	type node struct {
		Name  string
		Kids  []*node           `json:",omitempty"`
		Attrs map[string]string `json:",omitempty"`
	}
	var build func(depth int, name string) *node
	build = func(depth int, name string) *node {
		n := &node{Name: name, Attrs: map[string]string{"depth": fmt.Sprint(depth), "name": name}}
		for i := 0; depth > 0 && i < 4; i++ {
			n.Kids = append(n.Kids, build(depth-1, fmt.Sprintf("%s.%d", name, i)))
		}
		return n
	}
	value := build(5, "root")
	for i := 0; i < 4; i++ {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		value = new(node)
		if err := json.Unmarshal(text, value); err != nil {
			panic(err)
		}
		fmt.Fprintf(w, "%d %x\n", len(text), sha256.Sum256(text))
	}
}

func compress(w io.Writer) {
	random := rand.New(rand.NewSource(7))
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = "etaoin shrdlu"[random.Intn(13)]
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(text)
	z.Close()
	r, err := gzip.NewReader(&packed)
	if err != nil {
		panic(err)
	}
	back, err := io.ReadAll(r)
	fmt.Fprintln(w, bytes.Equal(text, back), err)
}

func words(w io.Writer) {
	page := template.Must(template.New("").Parse(`{{range $i, $w := .}}{{$i}}:{{$w}} {{end}}`))
	var out strings.Builder
	list := []string{}
	for i := 0; i < 3000; i++ {
		list = append(list, fmt.Sprintf("w%d", i*i%977))
	}
	if err := page.Execute(&out, list); err != nil {
		panic(err)
	}
	found := regexp.MustCompile(`(\d+):w(9[0-9]*7)\b`).FindAllString(out.String(), -1)
	h := fnv.New64a()
	io.WriteString(h, strings.Join(found, ","))
	fmt.Fprintln(w, len(found), h.Sum64())
}

// matrix is one goroutine for each row, over memory that moves through caches.
func matrix(w io.Writer) {
	const n = 160
	a, b, c := make([]float64, n*n), make([]float64, n*n), make([]float64, n*n)
	for i := range a {
		a[i], b[i] = float64(i%17)-8, float64(i%13)-6
	}
	var wait sync.WaitGroup
	for i := 0; i < n; i++ {
		wait.Add(1)
		go func(i int) {
			defer wait.Done()
			for j := 0; j < n; j++ {
				for k := 0; k < n; k++ {
					c[i*n+j] += a[i*n+k] * b[k*n+j]
				}
			}
		}(i)
	}
	wait.Wait()
	sum := 0.0
	for i, v := range c {
		sum += v * float64(i%7)
	}
	fmt.Fprintln(w, sum)
}

// pipeline has workers that finish in any order and an output in one.
func pipeline(w io.Writer) {
	type job struct{ index, value int }
	jobs, done := make(chan job), make(chan job)
	var workers sync.WaitGroup
	for i := 0; i < 8; i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for j := range jobs {
				for k := 0; k < 3000; k++ {
					j.value = j.value*1103515245 + 12345
				}
				done <- j
			}
		}()
	}
	go func() {
		for i := 0; i < 2000; i++ {
			jobs <- job{i, i}
		}
		close(jobs)
		workers.Wait()
		close(done)
	}()
	results := make([]int, 2000)
	for j := range done {
		results[j.index] = j.value
	}
	h := fnv.New64a()
	fmt.Fprint(h, results)
	fmt.Fprintln(w, h.Sum64())
}

// panics unwinds deep stacks while others run.
func panics(w io.Writer) {
	var deep func(n int) int
	deep = func(n int) int {
		if n == 0 {
			panic("bottom")
		}
		return deep(n-1) + 1
	}
	caught := make(chan string)
	for i := 0; i < 50; i++ {
		go func(i int) {
			defer func() { caught <- fmt.Sprint(recover()) }()
			deep(1000 + i)
		}(i)
	}
	for i := 0; i < 50; i++ {
		fmt.Fprint(w, <-caught, " ")
	}
	fmt.Fprintln(w)
}
