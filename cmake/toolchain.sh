# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Finds the toolchain, or installs it from the distribution. To be sourced by bash:
#
#   source cmake/toolchain.sh demo    what the demo needs: nvcc for sm_70, host compiler, CMake, Ninja;
#                                     Boost.Context, for a machine without a GPU
#   source cmake/toolchain.sh test    the same, and what the tests need
#
# Afterwards CUDACXX, CUDAHOSTCXX and CXX name the compilers, toolchain_cmake names CMake, and PATH
# starts with the folder of that nvcc: an nvcc that finds another toolkit's ptxas in PATH fails with
# "Value 'sm_70' is not defined". Returns non-zero, after saying what is missing, if the toolchain
# cannot be had.
#
# Installing one thing changes what is true of others. So nothing that was seen before an install is
# used after it: toolchain_main looks, installs what is missing, and looks at everything again, until
# nothing is missing that has not been tried.
#
# PAGEUNION_SYSTEM_ROOT names a folder to look in instead of / for what is not found through PATH: the
# test of this file sets it.

toolchain_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
toolchain_system=${PAGEUNION_SYSTEM_ROOT:-}

toolchain_say() { printf 'toolchain: %s\n' "$*" >&2; }

# Root may install; so may whoever has a sudo that asks no question.
toolchain_as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  else
    sudo -n "$@"
  fi
}

toolchain_can_install() {
  command -v apt-get > /dev/null || return 1
  [ "$(id -u)" -eq 0 ] || { command -v sudo > /dev/null && sudo -n true 2> /dev/null; }
}

# Runs apt-get; shows what it said only if it failed.
toolchain_apt() {
  local log result
  log=$(mktemp) || return 1
  toolchain_as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l \
    apt-get -o DPkg::Lock::Timeout=300 -qq "$@" < /dev/null > "$log" 2>&1
  result=$?
  [ "$result" -eq 0 ] || tail -n 20 "$log" >&2
  rm -f "$log"
  return "$result"
}

toolchain_apt_updated=no
toolchain_apt_update() {
  [ "$toolchain_apt_updated" = no ] && toolchain_can_install || return 0
  toolchain_say "apt-get update"
  # An unreachable third-party source must not stop us: what matters is whether packages are found.
  toolchain_apt update || toolchain_say "apt-get update reported an error; going on"
  toolchain_apt_updated=yes
}

toolchain_has_candidate() {
  toolchain_apt_update
  LC_ALL=C apt-cache policy "$1" 2> /dev/null | grep '^  Candidate: [^(]' > /dev/null
}

# Lines of the input for which the command holds. (No pipe in this file may end early: callers may
# have set pipefail.)
toolchain_filter() {
  local line
  while read -r line; do
    ! "$1" "$line" || printf '%s\n' "$line"
  done
}

# toolchain_install PACKAGE...: installs those that the distribution has.
toolchain_install() {
  local package found=()
  for package in "$@"; do
    if toolchain_has_candidate "$package" ||
      toolchain_add_components "$package"; then
      found+=("$package")
    else
      toolchain_say "the distribution has no package $package"
    fi
  done
  [ "${#found[@]}" -gt 0 ] || return 0
  toolchain_say "installing ${found[*]}"
  ! toolchain_apt install -y --no-install-recommends "${found[@]}" || return 0
  # One that cannot be installed must not keep the others out.
  for package in "${found[@]}"; do
    toolchain_apt install -y --no-install-recommends "$package" ||
      toolchain_say "apt-get install $package failed"
  done
}

# The CUDA toolkit is in Debian's non-free and in Ubuntu's multiverse. Writes one file of our own with
# the missing components of the distribution's archives that are already in use (same address, suite
# and key), and touches no other file. Done once, and undone if it does not bring the package named.
toolchain_add_components() {
  local folder=$toolchain_system/etc/apt/sources.list.d id codename wanted origin addresses text file awk_functions
  id=$(. "$toolchain_system/etc/os-release" && printf '%s' "$ID")
  codename=$(. "$toolchain_system/etc/os-release" && printf '%s' "${VERSION_CODENAME:-}")
  case "$id" in
    debian) wanted="contrib non-free" origin=Debian ;;
    ubuntu) wanted="universe restricted multiverse" origin=Ubuntu ;;
    *) return 1 ;;
  esac
  ! ls "$folder"/pageunion.* > /dev/null 2>&1 || return 1
  addresses=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 2> /dev/null |
    sed -n "s/^$origin //p" | sort -u | paste -sd' ')

  awk_functions='
    function missing(have, list, i, n, text) {
      n = split(wanted, list, " ")
      for (i = 1; i <= n; ++i)
        if (index(" " have " ", " " list[i] " ") == 0) text = text " " list[i]
      return substr(text, 2)
    }
    function is_official(uris, list, i, n) {
      n = split(uris, list, " ")
      for (i = 1; i <= n; ++i) {
        sub("/*$", "/", list[i])
        if (index(" " addresses " ", " " list[i] " ")) return 1
      }
      return 0
    }
    function field(name) {
      if (!match($0, "(^|\n)" name ":[^\n]*")) return ""
      return substr($0, RSTART + (substr($0, RSTART, 1) == "\n") + length(name) + 1,
                    RLENGTH - (substr($0, RSTART, 1) == "\n") - length(name) - 1)
    }'
  # Stanzas of *.sources first; where there are none, lines of sources.list and *.list.
  text=$(for file in "$folder"/*.sources; do cat "$file" 2> /dev/null; echo; done |
    awk -v RS= -v ORS='\n\n' -v wanted="$wanted" -v addresses="$addresses" -v codename="$codename" \
      "$awk_functions"'
      field("Components") ~ /(^| )main( |$)/ && field("Types") ~ /deb( |$)/ &&
      index(field("Suites"), codename) && field("Enabled") !~ /no/ && is_official(field("URIs")) {
        if ((components = missing(field("Components"))) != "") {
          sub(/Components:[^\n]*/, "Components: " components)
          print
        }
      }')
  file=$folder/pageunion.sources
  if [ -z "$text" ]; then
    file=$folder/pageunion.list
    text=$(cat /dev/null "$toolchain_system/etc/apt/sources.list" "$folder"/*.list 2> /dev/null |
      awk -v wanted="$wanted" -v addresses="$addresses" -v codename="$codename" "$awk_functions"'
        match($0, /^deb +(\[[^]]*\] +)?[^ ]+ +[^ ]+ +/) {
          entry = substr($0, 1, RLENGTH)
          have = substr($0, RLENGTH + 1)
          n = split(entry, part, " ")
          if (have ~ /(^| )main( |$)/ && index(part[n], codename) && is_official(part[n - 1]) &&
              (components = missing(have)) != "")
            print entry components
        }')
  fi
  [ -n "$text" ] || return 1
  printf '%s\n' "$text" | toolchain_as_root tee "$file" > /dev/null || return 1
  toolchain_say "wrote $file (components $wanted)"
  toolchain_apt_updated=no
  if ! toolchain_has_candidate "$1"; then
    toolchain_as_root rm -f "$file"
    toolchain_say "it brings no $1: removed $file again"
    return 1
  fi
}

# Every nvcc that could be meant, best first, each once.
toolchain_nvcc_candidates() {
  local nvcc
  local -A seen=()
  while read -r nvcc; do
    [ -n "${seen[$(realpath "$nvcc")]:-}" ] || printf '%s\n' "$nvcc"
    seen[$(realpath "$nvcc")]=yes
  done < <(
    [ -z "${CUDACXX:-}" ] || command -v "$CUDACXX" || true
    type -aP nvcc || true
    ls -d "$toolchain_system"/{usr/local,opt}/cuda*/bin/nvcc 2> /dev/null || true  # one may not exist
  )
}

toolchain_release() { "$1" --version 2> /dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p'; }

toolchain_builds_sm70() { "$1" --list-gpu-code 2> /dev/null | grep -x sm_70 > /dev/null; }

toolchain_is_too_new() { [ "$(toolchain_release "$1")" -ge 13 ] 2> /dev/null; }

# Host compilers that this nvcc may accept, best first.
toolchain_host_compilers() {
  case "$(toolchain_release "$1")" in
    11) echo "g++-11 g++-10 g++-9 g++" ;;
    *) echo "g++ g++-13 g++-12 g++-11 g++-10" ;;
  esac
}

# toolchain_probe NVCC HOST_COMPILER: can they build a kernel for sm_70 that uses the standard
# library, with the headers of that same toolkit?
toolchain_probe() {
  local folder result
  command -v "$2" > /dev/null || return 1
  folder=$(mktemp -d) || return 1
  cat > "$folder/probe.cu" << 'SOURCE'
#include <cuda_fp16.h>
#include <functional>
#include <vector>
#if CUDART_VERSION != __CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10
#error "headers of another toolkit"
#endif
__global__ void kernel(__half* x) { *x = __hadd(*x, *x); }
int main() {
  std::function<int(int)> f = [](int x) { return x; };
  return f(static_cast<int>(std::vector<int>{}.size()));
}
SOURCE
  PATH=$(dirname "$1"):$PATH "$1" -ccbin "$2" -std=c++17 -arch=sm_70 -o "$folder/probe" \
    "$folder/probe.cu" > /dev/null 2>&1
  result=$?
  rm -rf "$folder"
  return "$result"
}

# A distribution's toolkit has its headers in /usr/include. Where /usr/local/include holds those of
# another one, they win. Makes a folder of links to the hidden ones, which wins in turn when it
# stands in CPLUS_INCLUDE_PATH. (-isystem /usr/include would break the C++ library's own headers.)
toolchain_unhide_headers() {
  local folder=$toolchain_root/build/cuda_headers usr=$toolchain_system/usr header name
  [ -e "$usr/include/cuda_runtime.h" ] && [ -e "$usr/local/include/cuda_runtime.h" ] || return 0
  mkdir -p "$folder" || return 0
  for header in "$usr"/local/include/*; do
    name=${header##*/}
    [ ! -e "$usr/include/$name" ] || [ -e "$folder/$name" ] ||
      ln -sfn "$usr/include/$name" "$folder/$name" || return 0
  done
  export CPLUS_INCLUDE_PATH="$folder${toolchain_include_path:+:$toolchain_include_path}"
}

# Sets toolchain_nvcc and toolchain_host to a pair that works, and the environment that it needs.
toolchain_find_cuda() {
  local nvcc host
  toolchain_nvcc='' toolchain_host=''
  toolchain_unhide_headers
  while read -r nvcc; do
    for host in ${CUDAHOSTCXX:-} $(toolchain_host_compilers "$nvcc"); do
      if toolchain_probe "$nvcc" "$host"; then
        toolchain_nvcc=$nvcc
        toolchain_host=$(command -v "$host")
        return 0
      fi
    done
  done < <(toolchain_nvcc_candidates | toolchain_filter toolchain_builds_sm70)
  return 1
}

# Adds to `missing` what may bring the pair: a compiler that an nvcc of this machine may accept, if
# there is one that has not been tried; else a toolkit.
toolchain_add_cuda_package() {
  local nvcc host
  while read -r nvcc; do
    for host in $(toolchain_host_compilers "$nvcc"); do
      if ! command -v "$host" > /dev/null && [ -z "${tried[$host]:-}" ] &&
        toolchain_has_candidate "$host"; then
        missing+=("$host")
        return
      fi
    done
  done < <(toolchain_nvcc_candidates | toolchain_filter toolchain_builds_sm70)
  missing+=(nvidia-cuda-toolkit)
}

# Sets toolchain_cmake to one that is new enough.
toolchain_find_cmake() {
  while read -r toolchain_cmake; do
    printf '3.24\n%s\n' "$(toolchain_cmake_version)" | sort -VC && return
  done < <(type -aP cmake)
  return 1
}

toolchain_cmake_version() {
  "$toolchain_cmake" --version 2> /dev/null | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p'
}

# toolchain_absent "PACKAGE ARGUMENTS_OF_FIND_PACKAGE"...: the packages of those that CMake does not
# find, wherever they are; of all of them, if CMake cannot be asked.
toolchain_absent() {
  local folder entry package arguments
  folder=$(mktemp -d) || return 1
  {
    printf '%s\n' 'cmake_minimum_required(VERSION 3.24)' 'project(probe LANGUAGES CXX)'
    for entry in "$@"; do
      read -r package arguments <<< "$entry"
      printf 'find_package(%s QUIET)\nif(NOT %s_FOUND)\n  list(APPEND absent %s)\nendif()\n' \
        "$arguments" "${arguments%% *}" "$package"
    done
    echo 'file(WRITE ${CMAKE_BINARY_DIR}/absent "${absent}")'
  } > "$folder/CMakeLists.txt"
  if CXX=$toolchain_host "$toolchain_cmake" -S "$folder" -B "$folder" -G Ninja > /dev/null 2>&1; then
    tr ';' '\n' < "$folder/absent"
  else
    printf '%s\n' "${@%% *}"
  fi
  rm -rf "$folder"
}

# Can clang++ link a fuzzer? Its runtime is a package of its own on some systems.
toolchain_has_libfuzzer() {
  local folder result
  folder=$(mktemp -d) || return 1
  echo 'extern "C" int LLVMFuzzerTestOneInput(unsigned char const*, unsigned long) { return 0; }' \
    > "$folder/probe.cpp"
  clang++ -fsanitize=fuzzer,address,undefined -o "$folder/probe" "$folder/probe.cpp" > /dev/null 2>&1
  result=$?
  rm -rf "$folder"
  return "$result"
}

# toolchain_look LEVEL: fills the arrays `missing` and `wanted` with the packages of what is not
# there, as things are now. Without those wanted, tests are skipped, and named.
toolchain_look() {
  local tool
  missing=() wanted=()
  toolchain_find_cmake || missing+=(cmake)
  command -v ninja > /dev/null || missing+=(ninja-build)
  toolchain_find_cuda || toolchain_add_cuda_package
  if [ "${#missing[@]}" -gt 0 ] && toolchain_can_install; then
    return 0  # CMake and a compiler are what the rest is looked for with
  fi
  if [ "$1" = demo ]; then
    # Needed where there is no GPU.
    mapfile -t wanted < <(toolchain_absent "libboost-context-dev Boost COMPONENTS context")
    return 0
  fi
  mapfile -t -O "${#missing[@]}" missing < <(toolchain_absent "python3 Python3 3.9" "catch2 Catch2" \
    "libbenchmark-dev benchmark" "libboost-context-dev Boost COMPONENTS context" \
    "nlohmann-json3-dev nlohmann_json")
  command -v clang++ > /dev/null || wanted+=(clang)
  toolchain_has_libfuzzer || wanted+=(libclang-rt-dev)
  for tool in g++ clang-tidy-14 clang-format-14 codespell; do
    command -v "$tool" > /dev/null || wanted+=("$tool")
  done
}

# Removes the entries that name a CUDA toolkit from a colon-separated list.
toolchain_without_cuda() { printf '%s' "$1" | tr ':' '\n' | grep -vi cuda | paste -sd: -; }

toolchain_main() {
  local package variable toolchain_include_path missing=() wanted=() untried
  local -A tried=()
  for variable in LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH; do
    [ -z "${!variable:-}" ] || export "$variable=$(toolchain_without_cuda "${!variable}")"
  done
  unset CUDA_HOME CUDA_PATH CUDA_ROOT CUDAARCHS NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS
  toolchain_include_path=${CPLUS_INCLUDE_PATH:-}

  while true; do
    toolchain_look "$1"
    untried=()
    for package in "${missing[@]}" "${wanted[@]}"; do
      [ -n "${tried[$package]:-}" ] || untried+=("$package")
      tried[$package]=yes
    done
    [ "${#untried[@]}" -gt 0 ] && toolchain_can_install || break
    toolchain_install "${untried[@]}"
  done

  if [ -z "$toolchain_nvcc" ]; then
    toolchain_say "no CUDA toolkit that builds for sm_70, with a host compiler that it accepts." \
      "CUDA 11.x and 12.x can (13 cannot): the packages nvidia-cuda-toolkit and g++-11 (on Debian" \
      "with the component non-free), or https://developer.nvidia.com/cuda-toolkit-archive. If it" \
      "is installed already, name it: CUDACXX=/path/to/nvcc CUDAHOSTCXX=g++-11."
  fi
  if [ "${#missing[@]}" -gt 0 ]; then
    toolchain_say "missing: ${missing[*]}"
    toolchain_can_install ||
      toolchain_say "they cannot be installed from here: that needs apt-get, and root or a sudo" \
        "without password. With those rights: apt-get install ${missing[*]}"
    [ -n "$toolchain_cmake" ] || ! command -v cmake > /dev/null ||
      toolchain_say "$(cmake --version | sed -n 1p) is too old: 3.24 or later is needed. Get one" \
        "with 'pip install cmake', from https://apt.kitware.com or from https://cmake.org/download."
    return 1
  fi

  # For the test that compiles with a second toolkit, one that is too new for sm_70.
  PAGEUNION_SECOND_NVCC=$(toolchain_nvcc_candidates | toolchain_filter toolchain_is_too_new | sed -n 1p)
  PATH=$(dirname "$toolchain_nvcc"):$PATH
  CUDACXX=$toolchain_nvcc
  CUDAHOSTCXX=$toolchain_host
  CXX=$toolchain_host
  export PATH CUDACXX CUDAHOSTCXX CXX PAGEUNION_SECOND_NVCC
  toolchain_say "$("$CUDACXX" --version | sed -n 's/.*release \([0-9.]*\),.*/CUDA \1/p')" \
    "($CUDACXX), host compiler $CUDAHOSTCXX, $("$toolchain_cmake" --version | sed -n 1p)"
}

toolchain_main "${1:?demo or test}"
