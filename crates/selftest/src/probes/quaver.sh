#!/bin/sh
# For a test: in place of `quaver cc`. What it does wrong its name says.
shift
report='{}'
case ${0##*/} in
always) set -- "$@" -DX=2 ;;
control) if [ "$QUAVER_PROBES" = off ]; then set -- "$@" -DX=2; fi ;;
left) report='{"left_file":{"line":3}}' ;;
no-report) QUAVER_PROBES_REPORT= ;;
fails)
    echo 'x.c:1: bad' >&2
    exit 1
    ;;
esac
if [ -n "$QUAVER_PROBES_REPORT" ]; then echo "$report" >"$QUAVER_PROBES_REPORT"; fi
exec "$@"
