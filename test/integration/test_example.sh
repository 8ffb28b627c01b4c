#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A third party's view: installs into a folder of its own, checks what the library exports, and builds and runs the
# examples against what was installed.
#   test/integration/test_example.sh [BUILD]
# Without a model (COORDGEN_MODEL, or the fetched default) the examples are built and run without a service only.
set -eu
cd "$(dirname "$0")/../.."
build=${1:-${COORDGEN_BUILD:-build}}
work=$(mktemp -d)
daemon=
cleanup() {
    status=$?
    [ -z "$daemon" ] || { kill "$daemon" 2>/dev/null && wait "$daemon" || :; }
    [ $status = 0 ] || { echo "test_example: failed; daemon log:"; cat "$work/log" 2>/dev/null || :; }
    rm -rf "$work"
}
trap cleanup EXIT
fail() {
    echo "test_example: $*" >&2
    exit 1
}

make --no-print-directory install DESTDIR="$work/root" PREFIX=/usr LIBDIR=/usr/lib >"$work/installed"
export PKG_CONFIG_SYSROOT_DIR="$work/root" PKG_CONFIG_PATH="$work/root/usr/lib/pkgconfig"
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
library="$work/root/usr/lib/libcoordgen-client.so.0"

# Exactly the names of the public header, all of one version.
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | sort >"$work/exported"
sed -n 's/^COORDGEN_PUBLIC.*[ *]\(coordgen_[a-z_]*\)(.*/\1/p' client/coordgen-client*.h | sort >"$work/declared"
diff "$work/declared" "$work/exported" >&2 || fail "exported (>) and declared (<) names differ"
! nm -D --defined-only "$library" | awk '$2 != "A"' | grep -v '@@LIBCOORDGEN_CLIENT_0$' || fail "names without a version"
readelf -d "$library" | grep -q 'SONAME.*\[libcoordgen-client.so.0\]' || fail "no soname"
! readelf -d "$library" | grep NEEDED | grep -vE 'libprotobuf-c|libc\.so|libpthread|libm\.so' || fail "needs other libraries"
# The static library shows the same names and no others.
nm -g --defined-only "$work/root/usr/lib/libcoordgen-client.a" | awk 'NF == 3 { print $3 }' | sort >"$work/static"
diff "$work/declared" "$work/static" >&2 || fail "the static library has other names"

# The header alone, as C99 and as C++.
echo '#include <coordgen-client.h>' >"$work/header.c"
cp "$work/header.c" "$work/header.cc"
cc -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags libcoordgen-client) "$work/header.c"
c++ -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags libcoordgen-client) "$work/header.cc"

for example in summarise structured event_loop many embed; do
    cc -std=c99 -Wall -Wextra -Werror "client/example/$example.c" -pthread \
        $(pkg-config --cflags --libs libcoordgen-client) -o "$work/$example"
done
# (A pkg-config file of the system does not get the sysroot of ours twice: the one library is named by itself.)
cc -std=c99 -Wall -Wextra -Werror client/example/event_loop.c $(pkg-config --cflags libcoordgen-client) \
    "$work/root/usr/lib/libcoordgen-client.a" -lprotobuf-c -pthread -o "$work/event_loop_static"
export LD_LIBRARY_PATH="$work/root/usr/lib" COORDGEN_SOCKET="$work/api.sock"

echo 'The Danube rises in the Black Forest and flows through ten countries to the Black Sea.' >"$work/text"
status=0
"$work/summarise" "$work/text" 2>"$work/err" || status=$?
[ $status = 1 ] && grep -q 'unreachable' "$work/err" || fail "without a service: status $status, $(cat "$work/err")"

model=${COORDGEN_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/coordgen/fetched/smollm2-135m.gguf}
if [ ! -f "$model" ]; then
    echo "test_example: skipped with a service: no model at $model (tools/fetch-model smollm2-135m)"
    exit 0
fi
[ -x "$build/bin/coordgend" ] || fail "$build/bin/coordgend is not built"
"$build/bin/coordgend" --listen="$COORDGEN_SOCKET" --model="$model" --cache-dir="$work/cache" \
    --draftdb-dir="$work/draftdb" --state-dir="$work/state" --log-target=stderr 2>"$work/log" &
daemon=$!
"$work/root/usr/bin/coordgenctl" wait-ready --timeout 120
"$work/summarise" "$work/text" >"$work/out" 2>"$work/err" || fail "summarise: $(cat "$work/err")"
[ -s "$work/out" ] && grep -q 'written' "$work/err" || fail "summarise printed nothing"
"$work/structured" 'Ada Lovelace was born in London in 1815.' >"$work/out" 2>"$work/err" || fail "structured: $(cat "$work/err")"
grep -qE '^\{"person":"[^"]*","place":"[^"]*","year":[0-9]+\}$' "$work/out" || fail "structured: $(cat "$work/out")"
for program in event_loop event_loop_static; do
    "$work/$program" 'Name a river.' 'Name a mountain.' >"$work/out"
    [ "$(grep -cE '^Name a (river|mountain)\.$' "$work/out")" = 2 ] || fail "$program: $(cat "$work/out")"
done
"$work/many" 'Name a river.' >"$work/out" || fail "many: $(cat "$work/out")"
[ "$(grep -c 'tokens, .* bytes, seed ' "$work/out")" = 3 ] || fail "many: $(cat "$work/out")"
"$work/embed" 'A cat sleeps.' 'A cat sleeps.' 'Prices rise.' >"$work/out" || fail "embed: $(cat "$work/out")"
[ "$(grep -c "^1.0000 A cat sleeps.$" "$work/out")" = 1 ] && [ "$(wc -l <"$work/out")" = 2 ] || fail "embed: $(cat "$work/out")"
# Ctrl-C: the service ends the request, and the program says so. A text of some length that was not there before: drafts
# from the first answer would have a second one ready in a moment. (What is in the files now is an earlier program's.)
rm -f "$work/out" "$work/err"
"$work/summarise" packaging/examples/article.txt >"$work/out" 2>"$work/err" &
summarise=$!
while [ ! -s "$work/out" ] && kill -0 $summarise 2>/dev/null; do sleep 0.01; done
kill -INT $summarise 2>/dev/null || :
status=0
wait $summarise || status=$?
[ $status = 130 ] && grep -q cancelled "$work/err" || fail "Ctrl-C: status $status, $(cat "$work/err")"
kill $daemon
wait $daemon || fail "the daemon ended with status $?"
daemon=
echo "test_example: passed"
