#!/usr/bin/env python3
"""A load for memcached whose answers are all checked: memcached_load.py SOCKET REQUESTS CONNECTIONS.

Every connection has keys of its own, so it knows what each `get` must return; counters are shared and must add up.
"""

import hashlib
import random
import socket
import sys
import threading


def connect(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection.makefile("rwb")


def ask(stream, request):
    stream.write(request)
    stream.flush()
    return stream.readline()


def expect(got, wanted):
    if got != wanted:
        raise ValueError(f"got {got!r}, expected {wanted!r}")


def work(path, number, requests):
    """One connection's requests; returns how often it has incremented the counter."""
    stream, rng, known, increments = connect(path), random.Random(number), {}, 0
    for i in range(requests):
        key, dice = f"c{number}k{rng.randrange(50)}", rng.random()
        if dice < 0.4:
            value = hashlib.sha256(f"{number} {i}".encode()).hexdigest().encode() * rng.randrange(1, 40)
            head = f"set {key} {i % 60000} 0 {len(value)}\r\n".encode()
            expect(ask(stream, head + value + b"\r\n"), b"STORED\r\n")
            known[key] = (i % 60000, value)
        elif dice < 0.9:
            head = ask(stream, f"get {key}\r\n".encode())
            if key in known:
                flags, value = known[key]
                expect(head, f"VALUE {key} {flags} {len(value)}\r\n".encode())
                expect(stream.read(len(value) + 2), value + b"\r\n")
                head = stream.readline()
            expect(head, b"END\r\n")
        else:
            increments += 1
            if not ask(stream, b"incr shared 1\r\n").strip().isdigit():
                raise ValueError("the counter is gone")
    return increments


def main():
    path, requests, connections = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    expect(ask(connect(path), b"set shared 0 0 1\r\n0\r\n"), b"STORED\r\n")
    total, errors, guard = [0], [], threading.Lock()

    def run(number):
        try:
            increments = work(path, number, requests)
            with guard:
                total[0] += increments
        except (OSError, ValueError) as error:
            errors.append(f"connection {number}: {error}")

    threads = [threading.Thread(target=run, args=(n,)) for n in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not errors:
        counter = ask(connect(path), b"incr shared 0\r\n")
        if counter != f"{total[0]}\r\n".encode():
            errors.append(f"the counter is {counter!r}, not {total[0]}")
    print("\n".join(errors) or f"{requests * connections} answers as expected, counter {total[0]}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
