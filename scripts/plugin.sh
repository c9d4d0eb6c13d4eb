#!/usr/bin/env bash
# Installs an XLA PJRT plugin: plugin.sh cpu|cuda|rocm FOLDER
# GoMLX's own installer is tried first for the CPU plugin; where its download site cannot be reached, and for the GPU
# plugins, a pinned wheel is downloaded and its hash checked (scripts/plugins/<kind>.txt).
set -euo pipefail
kind=${1:?usage: plugin.sh cpu|cuda|rocm FOLDER}
folder=${2:?usage: plugin.sh cpu|cuda|rocm FOLDER}
here=$(cd "$(dirname "$0")" && pwd)
pins="$here/plugins/$kind.txt"
[ -f "$pins" ] || { echo "plugin.sh: no plugin called $kind; there are cpu, cuda and rocm" >&2; exit 2; }
mkdir -p "$folder"
if compgen -G "$folder/pjrt_c_api_${kind}*_plugin.so" >/dev/null; then
	echo "plugin.sh: $folder already holds the $kind plugin"
	exit 0
fi
if [ "$kind" = cpu ] && (cd "$here/.." && timeout 300 go run ./internal/plugin "$folder"); then
	exit 0
fi
[ "$kind" != cpu ] || echo "plugin.sh: GoMLX's installer failed; the wheel of $pins is taken" >&2
work=$(mktemp -d "$folder/.download-XXXXXX")
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r "$pins" -d "$work"
python3 - "$work" <<'PY'
import glob, shutil, sys, zipfile
work = sys.argv[1]
(wheel,) = glob.glob(work + "/*.whl")
with zipfile.ZipFile(wheel) as archive:
    (name,) = [n for n in archive.namelist() if n.endswith("_plugin.so")]
    with archive.open(name) as source, open(work + "/plugin.so", "wb") as target:
        shutil.copyfileobj(source, target)
PY
mv "$work/plugin.so" "$folder/pjrt_c_api_${kind}_plugin.so"
echo "plugin.sh: installed $folder/pjrt_c_api_${kind}_plugin.so"
