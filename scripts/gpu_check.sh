#!/usr/bin/env bash
# Checks the project on one device, and measures it: gpu_check.sh cpu|cuda|rocm [--tiny] [--out FOLDER] [--limit SECONDS]
#
# It builds the programs, installs XLA's plugin, runs the reference cases on the device, writes a checkpoint of the
# released size with random numbers (--tiny: a tiny one), makes an object with it, and writes FOLDER/gpu_check.json with
# the seconds of each step and the program's own timings. The logs are beside it. It asks nothing, and stops after the
# limit, 480 seconds. What is there already is not fetched again: Go modules in the cache, the plugin in .plugins (or
# $PLUGINS), the checkpoint in FOLDER/weights. With them it needs no network. The checkpoint takes 7 GB of disk.
#
# The exit status is that of the first step that failed; later steps that do not need it still run.
set -uo pipefail
usage="usage: gpu_check.sh cpu|cuda|rocm [--tiny] [--out FOLDER] [--limit SECONDS]"
kind=${1:?$usage}
shift
case $kind in cpu | cuda | rocm) ;; *)
	echo "$usage" >&2
	exit 2
	;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
scale=released out=$root/out/check-$kind limit=480
while [ $# -gt 0 ]; do
	case $1 in
	--tiny) scale=tiny ;;
	--out) out=${2:?$usage} && shift ;;
	--limit) limit=${2:?$usage} && shift ;;
	*)
		echo "$usage" >&2
		exit 2
		;;
	esac
	shift
done
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
cd "$root" || exit 1

backend=xla:$kind
case $kind in
cuda) backend=xla:cuda,tf32=false ;; # the reference cases are float32
rocm) export XLA_FLAGS="${XLA_FLAGS:-} --xla_gpu_graph_min_graph_size=999999" ;;
esac
export GOMLX_BACKEND=$backend GOMLX_NO_AUTO_INSTALL=1
export PJRT_PLUGIN_LIBRARY_PATH=${PLUGINS:-$root/.plugins}

status=0
steps=
# step NAME COMMAND... runs a command in the time that is left.
step() {
	local name=$1 begin=$EPOCHREALTIME left=$((limit - SECONDS)) code=0
	shift
	if [ "$left" -gt 0 ]; then
		timeout -k 10 "$left" "$@" >"$out/$name.out" 2>"$out/$name.log" || code=$?
	else
		code=124
		echo "no time left" >"$out/$name.log"
	fi
	local seconds
	seconds=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }')
	steps="$steps${steps:+,}
    {\"name\": \"$name\", \"seconds\": $seconds, \"status\": $code}"
	echo "$name: ${seconds} s, status $code"
	if [ "$code" -ne 0 ]; then
		tail -n 20 "$out/$name.out" "$out/$name.log" >&2
		[ "$status" -ne 0 ] || status=$code
	fi
	return "$code"
}

device() {
	case $kind in
	cuda) nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader ;;
	rocm) rocm-smi --showproductname --csv ;;
	cpu) awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo ;;
	esac 2>/dev/null | tr -c '[:alnum:],.()@-' ' '
}

voxels=8000
if [ "$scale" = tiny ]; then voxels=64; fi
rm -f "$out/generate.out"
step plugin scripts/plugin.sh "$kind" "$PJRT_PLUGIN_LIBRARY_PATH"
if step build go build -o "$out/bin/" ./examples/generate ./examples/randomweights; then
	if [ "$(cat "$out/weights/complete" 2>/dev/null)" = "$scale" ] ||
		{ step weights "$out/bin/randomweights" -out "$out/weights" -scale "$scale" -dtype bfloat16 -voxels "$voxels" -force &&
			echo "$scale" >"$out/weights/complete"; }; then
		step generate "$out/bin/generate" -model "$out/weights" -backend "$backend" -out "$out/object" -force -json
	fi
fi
packages=(./...)
if [ "$scale" = tiny ]; then packages=(./sparse ./sam3d/pose ./sam3d/flow); fi
step reference go test "${packages[@]}" -run TestReference -count=1
generated=null
if [ -s "$out/generate.out" ]; then generated=$(cat "$out/generate.out"); fi

cat >"$out/gpu_check.json" <<JSON
{
  "backend": "$backend", "scale": "$scale", "device": "$(device)", "go": "$(go env GOVERSION)",
  "commit": "$(git rev-parse --short HEAD 2>/dev/null)", "seconds": $SECONDS, "status": $status,
  "steps": [$steps
  ],
  "generate": $generated
}
JSON
echo "$out/gpu_check.json"
exit "$status"
