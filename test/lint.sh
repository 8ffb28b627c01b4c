#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Rules of the source tree that the compiler does not check. A remark made twice in review becomes a rule here.
#   test/lint.sh            all rules; exit 1 when one is broken
# Exceptions stand in test/lint.allow, each with its reason.
set -u
cd "$(dirname "$0")/.." || exit 2

broken=0
declare -A used

# report RULE FILE LINE TEXT: unless test/lint.allow names rule and file
report() {
    if grep -qE "^$1 $2( |$)" test/lint.allow; then
        used["$1 $2"]=1
        return
    fi
    echo "$2:$3: $1: $4"
    broken=$((broken + 1))
}

# search RULE PATTERN TEXT FILE...: every line that matches (comments and strings taken out) is reported
search() {
    local rule=$1 pattern=$2 text=$3 file line
    shift 3
    [ $# -gt 0 ] || return 0
    while IFS=: read -r file line; do
        report "$rule" "$file" "$line" "$text"
    done < <(code "$pattern" "$@")
}

# file:line of the code that matches a pattern; what stands in comments and string literals does not count
code() {
    PATTERN=$1 perl -e '
        my $pattern = qr/$ENV{PATTERN}/;
        for my $file (@ARGV) {
            open my $in, "<", "$ENV{STRIPPED}/$file" or next;
            while (<$in>) { print "$file:$.\n" if /$pattern/; }
        }' "${@:2}"
}
# Copies of the sources without comments and string literals, line for line.
export STRIPPED
STRIPPED=$(mktemp -d) || exit 2
trap 'rm -rf "$STRIPPED"' EXIT
strip_sources() {
    perl -MFile::Basename -MFile::Path -e '
        for my $file (@ARGV) {
            open my $in, "<", $file or next;
            my $text = do { local $/; <$in> };
            $text =~ s{(/\*.*?\*/)|(//[^\n]*)|("(?:[^"\\\n]|\\.)*")|(\x27(?:[^\x27\\\n]|\\.)*\x27)}
                      {my $out = defined $3 ? "\"\"" : ""; my $all = $&; $out . ("\n" x ($all =~ tr/\n//))}gse;
            File::Path::make_path("$ENV{STRIPPED}/" . dirname($file));
            open my $out, ">", "$ENV{STRIPPED}/$file" or die "$file: $!\n";
            print $out $text;
        }' "$@"
}

if git rev-parse --git-dir >/dev/null 2>&1; then
    mapfile -t files < <(git ls-files --cached --others --exclude-standard | while read -r f; do [ -f "$f" ] && echo "$f"; done)
else # a tarball
    mapfile -t files < <(find . -path ./build -prune -o -type f -print | sed 's|^\./||')
fi
pick() { printf '%s\n' "${files[@]}" | grep -E "$1"; }
mapfile -t sources < <(pick '\.(c|h|inc)$')
strip_sources "${sources[@]}"
mapfile -t library < <(pick '^(base|quant|model|text|backends|scheduler|weights|spec|engine|importer|proto|client|gateway|daemon)/.*\.(c|h|inc)$' | grep -v '^client/example/')
mapfile -t programs < <(printf '%s\n' "${sources[@]}" | grep -v '^test/')
mapfile -t texts < <(pick '\.(c|h|inc|py|sh|mk|md|proto|json|conf|service|socket|map|in|yml)$|^(Makefile|tools/[^/]*$|test/fuzz/run-fuzz|test/run-check)' |
    grep -vE '^test/golden/|\.bin$')

# --- the direction of includes ------------------------------------------------------------------------------------
declare -A sees=(
    [base]="base"
    [backends/numeric]="base backends/numeric"
    [quant]="base quant"
    [model]="base quant model"
    [text]="base quant model text"
    [backends]="base quant backends/numeric backends"
    [scheduler]="base quant backends/numeric backends scheduler"
    [weights]="base quant model backends/numeric backends scheduler weights"
    [spec]="base spec"
    [engine]="base quant model backends/numeric text backends scheduler weights spec engine"
    [proto]="base proto"
    [client]="base proto client"
    [gateway]="base client gateway"
    [importer]="base quant model backends/numeric text backends scheduler weights engine importer"
    [client/ctl]="base proto client client/ctl quant model importer"
    [daemon]="base quant model backends/numeric text backends scheduler weights spec engine importer proto daemon"
    [tools/baselines]="base spec tools/baselines"
    [tools/exit]="base quant model backends/numeric text backends scheduler weights spec engine tools/exit"
    [tools/train]="base quant model backends/numeric text backends scheduler weights spec engine importer tools/baselines tools/exit tools/train"
    [tools/eval]="base quant model backends/numeric text backends scheduler weights spec engine importer tools/baselines tools/exit tools/eval"
    [tools/bench]="base quant model backends/numeric text backends scheduler weights spec engine importer tools/baselines tools/exit tools/eval tools/bench"
)
# folder_of NAME PATH: sets the variable, for a process an include takes most of the time otherwise
folder_of() {
    case $2 in
    client/ctl/* | backends/numeric/* | tools/*/*)
        local room=${2#*/}
        printf -v "$1" %s "${2%%/*}/${room%%/*}"
        ;;
    */*) printf -v "$1" %s "${2%%/*}" ;;
    *) printf -v "$1" '' ;;
    esac
}
while IFS=: read -r file line include; do
    folder_of from "$file"
    [ -n "${sees[$from]-}" ] || continue
    folder_of to "$include"
    # A name without a folder is the public header, which programs outside include the same way.
    [ -n "$to" ] || continue
    case " ${sees[$from]} " in
    *" $to "*) ;;
    *) report include "$file" "$line" "$from must not see $to ($include)" ;;
    esac
done < <(awk -F'"' '/^[ \t]*#[ \t]*include "/ { print FILENAME ":" FNR ":" $2 }' "${sources[@]}")

# --- the layers of the daemon ---------------------------------------------------------------------------------------
# A file of daemon/ sees its own module and those that ARCHITECTURE.md names before it: so there is no circle.
declare -A place=()
while read -r module; do
    place[$module]=${#place[@]}
done < <(sed -n '/^## The layers of the daemon/,/^## The life/p' ARCHITECTURE.md | awk -F'|' '/^\|/ { print $3 }' |
    grep -o '`[a-z_]*`' | tr -d '`')
# The place of the module that a file belongs to: of its name, or of the front of its name.
place_of() {
    local stem=${1##*/}
    stem=${stem%.*}
    while [ -z "${place[$stem]-}" ] && [[ $stem == *_* ]]; do
        stem=${stem%_*}
    done
    echo "${place[$stem]-}"
}
for file in "${sources[@]}"; do
    [[ $file == daemon/* ]] || continue
    from=$(place_of "$file")
    [ -n "$from" ] || report layer "$file" 1 "ARCHITECTURE.md names no module of daemon/ that it belongs to"
    while IFS=: read -r line include; do
        [[ $include == daemon/* && -n $from ]] || continue
        to=$(place_of "$include")
        [ "${to:-0}" -le "$from" ] || report layer "$file" "$line" "$include is above it (ARCHITECTURE.md, layers)"
    done < <(awk -F'"' '/^[ \t]*#[ \t]*include "/ { print NR ":" $2 }' "$file")
done

# --- names ----------------------------------------------------------------------------------------------------------
while read -r name; do
    report unique-name "$(printf '%s\n' "${sources[@]}" | grep -E "(^|/)$name\$" | tail -1)" 1 "another file is called $name too"
done < <(printf '%s\n' "${sources[@]}" | sed 's|.*/||' | sort | uniq -d)

for file in "${sources[@]}"; do
    [[ $file == *.h ]] || continue
    while IFS= read -r line; do
        [[ $line =~ ^#ifndef\ COORDGEN_[A-Z0-9_]+_H$ ]] && continue 2
    done <"$file"
    report guard "$file" 1 "no include guard like COORDGEN_FOLDER_NAME_H"
done

# --- licence --------------------------------------------------------------------------------------------------------
# Within the first two lines, behind a "#!" perhaps.
mapfile -t licensed < <(pick '\.(c|h|inc|proto|py|sh|mk|map|conf|socket|in|1|catalog)$|^(Makefile|\.ci/run|tools/[^/.]+|packaging/completions/.*|test/(run-check|integration/run|gateway/(run-peers|llama-server)|fuzz/(run-fuzz|make-frame-seeds|make-jinja-seeds)))$' |
    grep -vE '^test/(golden|fuzz/corpus)/')
while read -r file; do
    report licence "$file" 1 "no line 'SPDX-License-Identifier: Apache-2.0' at the beginning"
done < <(awk 'FNR <= 2 && /SPDX-License-Identifier: Apache-2.0$/ { has[FILENAME] = 1 }
    END { for (i = 1; i < ARGC; i++) if (!has[ARGV[i]]) print ARGV[i] }' "${licensed[@]}")

# --- calls ----------------------------------------------------------------------------------------------------------
mains='^(daemon/coordgend|gateway/coordgen_httpd|client/ctl/coordgenctl|tools/eval/coordgen_eval|tools/bench/coordgen_bench|tools/train/coordgen_train_exit)\.c$'
mapfile -t no_mains < <(printf '%s\n' "${library[@]}" | grep -vE "$mains")
search exit '\b(exit|_exit|_Exit|quick_exit|abort)\s*\(' 'library code reports an error, it never ends the process' "${no_mains[@]}"
search unbounded '\b(strcpy|stpcpy|strcat|sprintf|vsprintf|gets|strncpy|strncat|sscanf|scanf|alloca)\s*\(' \
    'no bound, or one that is easily got wrong: snprintf, memcpy, str_buf, strtoul' "${sources[@]}"
search number '\b(atoi|atol|atoll|atof)\s*\(' 'cannot tell an error: strtoul and friends' "${sources[@]}"
search thread-unsafe '\b(strtok|localtime|gmtime|ctime|asctime|rand|srand|readdir_r)\s*\(' \
    'not safe with threads, or not the same everywhere: strtok_r, localtime_r, sampler_uniform' "${library[@]}"
search map '\bmmap(64)?\s*\(' 'maps of files are made by base/files/file_io, where they survive a cut of the file (docs/loading.md)' \
    "${programs[@]}"
search shell '\b(system|popen)\s*\(' 'no shell' "${library[@]}"
mapfile -t quiet < <(printf '%s\n' "${library[@]}" | grep -vE "^client/ctl/|^base/strings/command_line\.c$|$mains")
search print '(?<!format\()\b((printf|puts|putchar|perror)\s*\(|fprintf\s*\(\s*std(out|err))' 'library code logs, it does not print' "${quiet[@]}"

# --- the log --------------------------------------------------------------------------------------------------------
# Whoever can repeat a line of the log is counted by user: what knows its client says whose line it is.
mapfile -t clients < <(pick '^daemon/(net|users|requests|handlers)/.*\.c$|^daemon/engine/job\.c$' | grep -v '/listener\.c$')
search log-user '\blog_(error|warn|notice|info)\s*\(' 'a client can repeat it: log_info_of(uid, ...) and friends' "${clients[@]}"
mapfile -t unlimited < <(printf '%s\n' "${library[@]}" | grep -vE '^(base/log(_rate|_sink)?|daemon/systemd/journal(_sink)?)\.[ch]$')
search log-rate '\b(log_emit|sd_journal_\w+|v?syslog)\s*\(' 'past the count of lines that are the same (base/log_rate.h)' "${unlimited[@]}"

# What C libraries have in different ways has one place; else a build for musl or bionic breaks unseen.
mapfile -t plain < <(printf '%s\n' "${library[@]}" | grep -vE '^base/(queue|system/kernel_call|system/c_library(_android)?)\.[ch]$')
search c-library '#include <sys/queue\.h>|__rlimit_resource_t|\b(statx|preadv2|secure_getenv|get_current_dir_name|pthread_\w+affinity_np|pthread_timedjoin_np)\s*\(' \
    'call base/queue.h, base/system/kernel_call.h or base/system/c_library.h' "${plain[@]}"

# --- text -----------------------------------------------------------------------------------------------------------
for rule in $'tab:\t:a tab; the sources are indented by 4 spaces' 'trailing: $:white space at the end of the line'; do
    IFS=: read -r name pattern text <<<"$rule"
    while IFS=: read -r file line _; do
        report "$name" "$file" "$line" "$text"
    done < <(grep -nHE "$pattern" "${sources[@]}" /dev/null)
done
while IFS=: read -r file line _; do
    report unfinished "$file" "$line" "unfinished work is finished or written down as an issue"
done < <(grep -nHwE 'T[O]DO|F[I]XME|X[X]X|H[A]CK' "${texts[@]}" /dev/null)
while IFS=: read -r file line _; do
    report unsafe-math "$file" "$line" "changes bits, or ties the build to this machine"
done < <(grep -nHE -- '-f[f]ast-math|-m[a]rch=native|-O[f]ast' Makefile mk/*.mk | grep -vE ':[0-9]+:[[:space:]]*#')

# Formatting is not a matter of taste: what clang-format of Debian 12 makes of a file is how it looks.
formatter=$(command -v clang-format-14 || command -v clang-format)
if [ -n "$formatter" ]; then
    while IFS=: read -r file line _; do
        report format "$file" "$line" "not as clang-format has it (make format)"
    done < <("$formatter" --dry-run "${sources[@]}" 2>&1 | grep -E '^[^ :]+:[0-9]+:[0-9]+: warning' | sort -u -t: -k1,1)
else
    echo "note: clang-format is not installed, formatting was not looked at"
fi

# --- layout ---------------------------------------------------------------------------------------------------------
# clang-format breaks no comment and no string.
while IFS=: read -r file line; do
    report columns "$file" "$line" "longer than 120 columns"
done < <(perl -CSD -ne 'chomp; print "$ARGV:$.\n" if length > 120; close ARGV if eof' "${sources[@]}")

# --- prose ----------------------------------------------------------------------------------------------------------
# A comment names its subject, first (CONTRIBUTING.md): it is read alone, in a search or beside its declaration.
while IFS=: read -r file line; do
    report riddle "$file" "$line" "the comment begins without its subject: it must be understood alone"
done < <(perl -ne '
    print "$ARGV:$.\n" if m{(?:/\*\*?|//|^\s*\*(?: \@\w+:| \w+\(\):)?)\s*
        (?:Of|And|So|It|They|Them|Likewise|The\ same|That|Those|One|Else|Whose|What\ is\ left|But)\b}x;
    close ARGV if eof' "${sources[@]}" proto/coordgen.proto)
if command -v python3 >/dev/null; then
    test/prose-check --strict >"$STRIPPED/prose" || {
        grep -v '^ok' "$STRIPPED/prose" | tail -20
        report prose docs 1 "a page or a sentence is too long (test/prose-check)"
    }
fi

# --- circles --------------------------------------------------------------------------------------------------------
# Modules that need one another can be read and tested only together (test/circles --why says what ties them).
if command -v python3 >/dev/null; then
    while read -r first others; do
        report circle "$first" 1 "needs, and is needed by: $others"
    done < <(test/circles)
fi

# --- tests ----------------------------------------------------------------------------------------------------------
# Every test function asserts, itself or through what it calls in test/unit and test/device.
while IFS=: read -r file line name; do
    report assertion "$file" "$line" "$name() asserts nothing, so it cannot fail"
done < <(perl -e '
    my (%calls, %asserts, %place);
    for my $file (@ARGV) {
        open my $in, "<", $file or next;
        my ($name, $line) = ("", 0);
        while (<$in>) {
            $line++;
            if (/^\w[\w \*]*?\b(\w+)\(.*(\{|,|\))\s*$/ && !/;\s*$/) {
                $name = $1;
                $place{$name} = "$file:$line" if $name =~ /^test_/ && /void \*\*/;
            } elsif (!$name && /^#define (\w+)/) {
                $name = $1;
            }
            next unless $name;
            $asserts{$name} = 1 if /\b(assert_\w+|fail|fail_msg|assert)\s*\(/;
            $calls{$name}{$1} = 1 while /\b(\w+)\b/g;
            $name = "" if /^\}/;
        }
    }
    for (my $more = 1; $more;) {
        $more = 0;
        for my $name (keys %calls) {
            next if $asserts{$name};
            next unless grep { $asserts{$_} } keys %{$calls{$name}};
            $asserts{$name} = $more = 1;
        }
    }
    print "$place{$_}:$_\n" for sort grep { !$asserts{$_} } keys %place;
' $(pick '^test/(unit|device)/.*\.[ch]$'))

while read -r rule file _; do
    [[ -z $rule || $rule == \#* ]] && continue
    [ -n "${used["$rule $file"]-}" ] || { echo "test/lint.allow: '$rule $file' is not needed any more"; broken=$((broken + 1)); }
done <test/lint.allow

# --- told, not enforced ---------------------------------------------------------------------------------------------
[ ! -f "$STRIPPED/prose" ] || sed -n '/^the longest/,/^[0-9]/p' "$STRIPPED/prose" | head -6 | cut -c1-120 | sed 's/^/note: /'
wc -l "${sources[@]}" | awk '$1 > 700 && $2 != "total" { print "note: " $2 " has " $1 " lines: is it two modules?" }'

if [ "$broken" -gt 0 ]; then
    echo "lint: $broken broken rules"
    exit 1
fi
echo "lint: ${#sources[@]} sources, no rule broken"
