// Command overtake shows what preemption does for BadgerDB by counting (the paper's Figure 7, without its times): while a
// server with one P works on a long scan, it answers GETs. Arguments: the least number of GETs answered during each
// scan, how often it goes over its keys, then the server's command. All answers are compared with what they have to be.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"quaver.dev/go/bench/serve"
)

const keys, scanned, scans = 500, 450, 3

func main() {
	least, err := strconv.Atoi(os.Args[1])
	serve.Check(err)
	times, err := strconv.ParseUint(os.Args[2], 10, 64)
	serve.Check(err)
	server := exec.Command(os.Args[3], append(os.Args[4:], "-keys", fmt.Sprint(keys))...)
	server.Env = append(os.Environ(), "GOMAXPROCS=1")
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	serve.Check(err)
	stdout, err := server.StdoutPipe()
	serve.Check(err)
	serve.Check(server.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	serve.Check(err)
	at := "http://" + strings.Fields(line)[0]
	for i := 0; i < scans; i++ {
		if during := scan(at, i, times); during < least {
			serve.Check(fmt.Errorf("%d GETs were answered during scan %d, not %d", during, i, least))
		}
	}
	var stats struct{ Preempted, UserInterrupts uint64 }
	serve.Check(json.Unmarshal([]byte(get(at+"/stats")), &stats))
	fmt.Println(stats.Preempted, stats.UserInterrupts)
	stdin.Close()
	serve.Check(server.Wait())
}

// scan starts a scan from key first on, times over, and returns how many GETs are answered meanwhile.
func scan(at string, first int, times uint64) (during int) {
	sum := make(chan string)
	begun := make(chan bool)
	go func() {
		begun <- true
		sum <- get(fmt.Sprintf("%s/scan?k=%d&n=%d&times=%d", at, first, scanned, times))
	}()
	<-begun
	time.Sleep(time.Millisecond)
	for ; ; during++ {
		select {
		case got := <-sum:
			want := uint64(0)
			for i := first; i < first+scanned; i++ {
				for _, b := range serve.Value(uint64(i)) {
					want += uint64(b)
				}
			}
			if strings.TrimSpace(got) != fmt.Sprint(times*want) {
				serve.Check(fmt.Errorf("scan %d is %s, not %d", first, got, times*want))
			}
			return during
		default:
		}
		if n := uint64(during*7) % keys; get(fmt.Sprintf("%s/get?k=%d", at, n)) != string(serve.Value(n)) {
			serve.Check(fmt.Errorf("the value of key %d is wrong", n))
		}
	}
}

func get(url string) string {
	r, err := http.Get(url)
	serve.Check(err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	serve.Check(err)
	if r.StatusCode != http.StatusOK {
		serve.Check(fmt.Errorf("%s: %s: %s", url, r.Status, text))
	}
	return string(text)
}
