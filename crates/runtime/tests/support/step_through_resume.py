"""Stops where a preempted thread is resumed and takes a backtrace at each instruction of that."""

import gdb


def innermost_and_outermost():
    """The names of the first and the last frame of the selected kernel thread."""
    frame = gdb.newest_frame()
    first = frame.name()
    while frame.older() is not None:
        frame = frame.older()
    return first, frame.name()


gdb.execute("info uthreads", to_string=True)
# Of quaver-gdb.py, which gdb has loaded.
start, end = unwinder.resume  # noqa: F821
gdb.execute(f"tbreak *{start:#x}")
gdb.execute("handle SIGPIPE nostop noprint", to_string=True)
gdb.execute("continue")
gdb.execute("set scheduler-locking on")
# Another request would turn the thread back.
gdb.execute("handle SIGURG nostop noprint nopass", to_string=True)
steps = 0
while start <= gdb.newest_frame().pc() < end:
    text = gdb.execute("bt", to_string=True)
    assert "busy_inner" in text, text
    assert "thread_start" in innermost_and_outermost()[1], text
    steps += 1
    gdb.execute("stepi", to_string=True)
assert steps > 25, f"only {steps} steps"
gdb.write(f"all steps unwound: {steps}\n")
