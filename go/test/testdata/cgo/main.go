// Command cgo calls C that calls Go, from several goroutines, beside hogs.
package main

/*
#include <errno.h>
#include <stdlib.h>

extern int goDouble(int);

static int through(int n) {
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += goDouble(i);
	return sum;
}

static double loop(int n) {
	double x = 1;
	for (int i = 0; i < n; i++)
		x = x * 1.0000001 + 1e-9;
	return x;
}

static int fail(int code) { errno = code; return -1; }
*/
import "C"

import (
	"fmt"
	"sync"
	"syscall"
)

//export goDouble
func goDouble(n C.int) C.int { return 2 * n }

func main() {
	want := C.loop(100_000)
	var all sync.WaitGroup
	for g := 0; g < 8; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			for i := 0; i < 300; i++ {
				if n := C.through(100); n != 9900 {
					panic(fmt.Sprint("callback sum is ", n))
				}
				if x := C.loop(100_000); x != want {
					panic(fmt.Sprint("loop in C gives ", x, ", not ", want))
				}
				if _, err := C.fail(C.int(g + 1)); err != syscall.Errno(g+1) {
					panic(fmt.Sprint("errno is ", err))
				}
			}
		}(g)
	}
	all.Wait()
	fmt.Println("ok")
}
