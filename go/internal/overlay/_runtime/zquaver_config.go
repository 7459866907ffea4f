package runtime

// QUAVER_GO, read once when the program starts. Anything that is not understood ends the program: one that runs with
// half of its settings is worse than one that does not start. A library must not end the program that has loaded it, so
// there the runtime goes on as Go's own, and says so.

const quaverKnown = "policy, quantum, long, poll, hold, idle, share, tax, skip, queues, netfirst, locks, clock, notification"

// quaverInit is called by schedinit when the environment is there, before any goroutine runs.
func quaverInit() {
	quaverDefaults()
	quaverUI.fd = -1
	text := gogetenv("QUAVER_GO")
	if text == "" || text == "off" || isSecureMode() {
		return
	}
	quaverRead(text)
	if quaverRefused {
		quaverDefaults()
	}
	if quaver.share == 0 {
		quaver.twoQueues = false
	}
	quaverCountLocks()
	quaverOpenDevice()
}

// quaverRefused says that a library has found a setting that is not understood.
var quaverRefused bool

// quaverRead reads the settings.
func quaverRead(text string) {
	// The policy sets everything else, wherever it stands.
	quaverEach(text, func(key, value string) {
		times := 0
		quaverEach(text, func(other, _ string) {
			if other == key {
				times++
			}
		})
		if times > 1 {
			quaverDie("", key, " is set more than once")
		}
		if key != "policy" {
			return
		}
		switch value {
		case "quaver":
		case "paper":
			quaverPaper()
		default:
			quaverBad(key, value, "quaver or paper")
		}
	})
	quantum := int64(-1)
	quaverEach(text, func(key, value string) {
		switch key {
		case "policy":
		case "quantum":
			quantum = quaverDuration(key, value)
		case "long":
			quaver.long = quaverDuration(key, value)
		case "poll":
			quaver.poll = quaverDuration(key, value)
		case "hold":
			quaver.hold = min(quaverDuration(key, value), quaverMaxHold)
		case "idle":
			quaver.idle = quaverDuration(key, value)
		case "share":
			quaver.share = quaverPercent(key, value)
		case "tax":
			if quaver.tax = quaverPercent(key, value); quaver.tax == 0 {
				quaverBad(key, value, "a percentage from 1 to 100")
			}
		case "skip":
			quaver.skip = quaverChoice(key, value, "off", "on")
		case "queues":
			quaver.twoQueues = quaverChoice(key, value, "one", "two")
		case "netfirst":
			quaver.netFirst = quaverChoice(key, value, "off", "on")
		case "locks":
			if !quaverChoice(key, value, "off", "on") {
				quaver.hold = 0
			}
		case "clock":
			quaver.spin = quaverChoice(key, value, "sleep", "spin")
		case "notification":
			quaverUI.wanted = quaverChoice(key, value, "signal", "user-interrupt")
		default:
			quaverDie("unknown key \"", key, "\"; known are "+quaverKnown)
		}
	})
	if quantum < 0 {
		quaverDie("no quantum in \"", text, "\"; say for example quantum=50us, or quantum=0 for the stock behaviour")
	}
	clamped := quaverClamp(quantum)
	if clamped != quantum {
		print("quaver-go: QUAVER_GO: a quantum of ", quantum, " ns is out of range; using ", clamped/1000, "us\n")
	}
	if !quaverRefused {
		quaver.quantum.Store(clamped)
	}
}

// quaverEach calls f for each "key=value" of a list separated by commas.
func quaverEach(text string, f func(key, value string)) {
	for len(text) > 0 {
		end := 0
		for end < len(text) && text[end] != ',' {
			end++
		}
		item := text[:end]
		if end < len(text) {
			end++
			if end == len(text) {
				quaverDie("a comma ends \"", text, "\"; something is missing behind it")
			}
		}
		text = text[end:]
		eq := 0
		for eq < len(item) && item[eq] != '=' {
			eq++
		}
		if eq == 0 || eq == len(item) {
			quaverDie("\"", item, "\" is not of the form key=value; known keys are "+quaverKnown)
		}
		f(item[:eq], item[eq+1:])
	}
}

// quaverNumber splits a number that fits in 48 bits from what follows it; ok is false if there is none.
func quaverNumber(value string) (n int64, rest string, ok bool) {
	i := 0
	for ; i < len(value) && value[i] >= '0' && value[i] <= '9'; i++ {
		n = n*10 + int64(value[i]-'0')
		if n >= 1<<48 {
			return 0, value, false
		}
	}
	return n, value[i:], i > 0
}

func quaverDuration(key, value string) int64 {
	const want = "a whole number with ns, us, ms or s"
	n, unit, ok := quaverNumber(value)
	if !ok {
		if key == "hold" && value == "inf" {
			return quaverForever
		}
		quaverBad(key, value, want)
	}
	scale := int64(1)
	switch unit {
	case "ns":
	case "us", "µs":
		scale = 1000
	case "ms":
		scale = 1000 * 1000
	case "s":
		scale = 1000 * 1000 * 1000
	default:
		if n != 0 || unit != "" {
			quaverBad(key, value, want)
		}
	}
	if n > 3600*1000*1000*1000/scale {
		quaverBad(key, value, "an hour at most")
	}
	return n * scale
}

func quaverPercent(key, value string) int64 {
	n, rest, ok := quaverNumber(value)
	if !ok || (rest != "" && rest != "%") || n > 100 {
		quaverBad(key, value, "a percentage from 0 to 100")
	}
	return n
}

func quaverChoice(key, value, no, yes string) bool {
	if value != no && value != yes {
		quaverBad(key, value, no+" or "+yes)
	}
	return value == yes
}

func quaverBad(key, value, want string) {
	print("quaver-go: QUAVER_GO: ", key, "=", value, " is not understood; ", key, " is ", want, "\n")
	quaverRefuse()
}

func quaverDie(before, what, after string) {
	print("quaver-go: QUAVER_GO: ", before, what, after, "\n")
	quaverRefuse()
}

// quaverRefuse ends the program, but for one that belongs to others.
func quaverRefuse() {
	if !islibrary && !isarchive {
		exit(2)
	}
	if !quaverRefused {
		print("quaver-go: QUAVER_GO: this library runs without preemption\n")
	}
	quaverRefused = true
}
