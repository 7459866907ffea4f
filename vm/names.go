figure-12-loop 2
figure-12-nbody 2
figure-12-sha256 2
figure-12-sort 2
figure-12-fib 2
module-loads 1
module-unloads 1
kernel-undisturbed 1
