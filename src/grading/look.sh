# Reads what leads a test runner or git: settings, plugins and modules in their place, below the working directory.
# Arguments: the working directory, then `pytest` or `git` or both. Follows no link.
# Standard output, NUL-terminated pairs: a path, its content in base64 (`-` where it is no regular file or too large to be settings, and for
# all past the first 400, the deepest: nobody can hide one behind a crowd of others).
set -u
export LC_ALL=C
cd -P -- "$1" || exit 1
shift
max_bytes=65536
max_files=400
# No path with more parts can be opened.
deepest=2000

find_pytest() {
  find . -xdev -maxdepth "$deepest" \( -name .git -o -name node_modules -o -name site-packages -o -name dist-packages \) -prune -o ! -type d \( \
    -name conftest.py -o -name pytest.ini -o -name .pytest.ini -o -name pytest.toml -o -name .pytest.toml \
    -o -name pyproject.toml -o -name setup.cfg -o -name tox.ini -o -name pytest.py \
    -o -path '*/pytest/__init__.py' -o -path '*/_pytest/__init__.py' -o -path '*/pluggy/__init__.py' \
    -o -type l \( -name pytest -o -name _pytest -o -name pluggy \) \
    \) -printf '%d %p\0'
  # Whatever is installed and may offer itself to pytest, wherever an environment is.
  find . -xdev -maxdepth "$deepest" \( -name .git -o -name node_modules \) -prune -o ! -type d \( \
    -path '*.dist-info/entry_points.txt' -o -path '*.egg-info/entry_points.txt' -o -name '*.dist-info' \
    -o -name '*.egg-info' \) -printf '%d %p\0'
}

find_git() {
  find . -xdev -maxdepth 5 -name node_modules -prune -o ! -type d \( -name .git -o -path '*/.git/config' \
    -o -path '*/.git/config.worktree' -o -path '*/.git/commondir' \) -printf '%d %p\0'
}

count=0
while IFS= read -r -d '' found; do
  path=${found#* }
  # Longer than any path that can be opened.
  [[ ${#path} -lt 4000 ]] || continue
  if [[ $path == */entry_points.txt && -f $path && ! -L $path ]] && ! grep -q pytest11 -- "$path"; then continue; fi
  count=$((count + 1))
  printf '%s\0' "${path#./}"
  if [[ $count -le $max_files && -f $path && ! -L $path && $(stat -c %s -- "$path") -le $max_bytes ]]; then
    base64 -w0 -- "$path"
  else
    printf -- -
  fi
  printf '\0'
done < <(
  set -o pipefail
  for kind in "$@"; do "find_$kind"; done | sort -z -n
)
# An order that failed, for want of room or memory, would look like a tree with nothing in it.
wait "$!"
