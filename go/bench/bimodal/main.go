// Command bimodal serves requests that say how long they take.
package main

import (
	"fmt"
	"net"
	"os"

	"quaver.dev/go/bench/serve"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-calibrate" {
		fmt.Println(serve.RoundsPerUs())
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	serve.Check(err)
	fmt.Println(l.Addr())
	go serve.Raw(l)
	serve.UntilInputEnds()
}
