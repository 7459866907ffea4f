"""Stops where a preempted thread is resumed and takes a backtrace at each instruction of that."""

import gdb


def innermost_and_outermost():
    """The names of the first and the last frame of the selected kernel thread."""
    frame = gdb.newest_frame()
    first = frame.name()
    while frame.older() is not None:
        frame = frame.older()
    return first, frame.name()


# In C, where symbols without debug information are known.
gdb.execute("set language c")
start, end = (int(gdb.parse_and_eval(f"(long)&{name}")) for name in ("quaver_resume", "quaver_resume_end"))
gdb.execute("set language auto")
gdb.execute(f"tbreak *{start:#x}")
gdb.execute("handle SIGPIPE nostop noprint", to_string=True)
gdb.execute("continue")
gdb.execute("set scheduler-locking on")
# Another request would turn the thread back.
gdb.execute("handle SIGURG nostop noprint nopass", to_string=True)
steps = 0
while start <= gdb.newest_frame().pc() < end:
    text = gdb.execute("bt", to_string=True)
    # As of who was interrupted: gdb would look for a caller's instruction before its address, which
    # at a function's first is another function.
    assert gdb.newest_frame().type() == gdb.SIGTRAMP_FRAME, text
    assert "busy_inner" in text, text
    assert "thread_start" in innermost_and_outermost()[1], text
    steps += 1
    gdb.execute("stepi", to_string=True)
assert steps > 25, f"only {steps} steps"
gdb.write(f"all steps unwound: {steps}\n")
