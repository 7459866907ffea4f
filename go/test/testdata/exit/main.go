// Command exit ends with the status that is its argument.
package main

import (
	"os"
	"strconv"
)

func main() {
	status, _ := strconv.Atoi(os.Args[1])
	os.Exit(status)
}
