# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Finds the toolchain, or installs it from the distribution. To be sourced by bash:
#
#   source cmake/toolchain.sh demo    what the demo needs: nvcc for sm_70, host compiler, CMake, Ninja;
#                                     Boost.Context, for a machine without a GPU
#   source cmake/toolchain.sh test    the same, and what the tests need
#
# Afterwards CUDACXX, CUDAHOSTCXX and CXX name the compilers and PATH starts with the folder of
# that nvcc: an nvcc that finds another toolkit's ptxas in PATH fails with "Value 'sm_70' is not
# defined". Returns non-zero, after saying what is missing, if the toolchain cannot be had.

toolchain_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

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
  [ "$toolchain_apt_updated" = no ] || return 0
  toolchain_say "apt-get update"
  # An unreachable third-party source must not stop us: what matters is whether packages are found.
  toolchain_apt update || toolchain_say "apt-get update reported an error; going on"
  toolchain_apt_updated=yes
}

toolchain_has_candidate() {
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

# toolchain_install PACKAGE...: installs those that the distribution has. Non-zero if one is not
# there afterwards.
toolchain_install() {
  local package found=() result=0
  toolchain_apt_update
  for package in "$@"; do
    if toolchain_has_candidate "$package" ||
      toolchain_add_components "$package"; then
      found+=("$package")
    else
      toolchain_say "the distribution has no package $package"
      result=1
    fi
  done
  [ "${#found[@]}" -gt 0 ] || return "$result"
  toolchain_say "installing ${found[*]}"
  if toolchain_apt install -y --no-install-recommends "${found[@]}"; then
    toolchain_say "installed ${found[*]}"
  else
    toolchain_say "apt-get install ${found[*]} failed"
    result=1
  fi
  return "$result"
}

# The CUDA toolkit is in Debian's non-free and in Ubuntu's multiverse. Writes one file of our own with
# the missing components of the distribution's archives that are already in use (same address, suite
# and key), and touches no other file. Done once, and undone if it does not bring the package named.
toolchain_add_components() {
  local folder=/etc/apt/sources.list.d id codename wanted origin addresses text file awk_functions
  id=$(. /etc/os-release && printf '%s' "$ID")
  codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
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
    text=$(cat /dev/null /etc/apt/sources.list "$folder"/*.list 2> /dev/null |
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
  toolchain_apt_update
  if ! toolchain_has_candidate "$1"; then
    toolchain_as_root rm -f "$file"
    toolchain_say "it brings no $1: removed $file again"
    return 1
  fi
}

# Every nvcc that could be meant, best first.
toolchain_nvcc_candidates() {
  {
    [ -z "${CUDACXX:-}" ] || command -v "$CUDACXX" || true
    type -aP nvcc || true
    ls -d /usr/local/cuda*/bin/nvcc /opt/cuda*/bin/nvcc 2> /dev/null || true  # one may not exist
  } | awk '!seen[$0]++'
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
#if CUDART_VERSION / 1000 != __CUDACC_VER_MAJOR__
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
  local header name
  [ -e /usr/include/cuda_runtime.h ] && [ -e /usr/local/include/cuda_runtime.h ] || return 1
  mkdir -p "$1" || return 1
  for header in /usr/local/include/*; do
    name=${header##*/}
    [ ! -e "/usr/include/$name" ] || [ -e "$1/$name" ] ||
      ln -sfn "/usr/include/$name" "$1/$name" || return 1
  done
}

# Sets toolchain_nvcc and toolchain_host to a pair that works.
toolchain_find_cuda() {
  local nvcc host
  while read -r nvcc; do
    toolchain_builds_sm70 "$nvcc" || continue
    for host in ${CUDAHOSTCXX:-} $(toolchain_host_compilers "$nvcc"); do
      if toolchain_probe "$nvcc" "$host"; then
        toolchain_nvcc=$nvcc
        toolchain_host=$(command -v "$host")
        return 0
      fi
    done
  done < <(toolchain_nvcc_candidates)
  return 1
}

toolchain_install_cuda() {
  local nvcc host
  if ! toolchain_nvcc_candidates | toolchain_filter toolchain_builds_sm70 | grep . > /dev/null; then
    toolchain_install nvidia-cuda-toolkit || return 1
  fi
  toolchain_find_cuda && return 0
  # There is an nvcc for sm_70, but no compiler that it accepts.
  while read -r nvcc; do
    toolchain_builds_sm70 "$nvcc" || continue
    for host in $(toolchain_host_compilers "$nvcc"); do
      if ! command -v "$host" > /dev/null && toolchain_install "$host" && toolchain_find_cuda; then
        return 0
      fi
    done
  done < <(toolchain_nvcc_candidates)
  return 1
}

# Removes the entries that name a CUDA toolkit from a colon-separated list.
toolchain_without_cuda() { printf '%s' "$1" | tr ':' '\n' | grep -vi cuda | paste -sd: -; }

# toolchain_cmake_finds PACKAGE [COMPONENTS...]: is it somewhere else than in the distribution's place?
toolchain_cmake_finds() {
  local folder result
  folder=$(mktemp -d) || return 1
  printf '%s\n' 'cmake_minimum_required(VERSION 3.24)' 'project(probe LANGUAGES CXX)' \
    "find_package($* REQUIRED)" > "$folder/CMakeLists.txt"
  cmake -S "$folder" -B "$folder/build" > /dev/null 2>&1
  result=$?
  rm -rf "$folder"
  return "$result"
}

toolchain_cmake_is_new_enough() {
  printf '3.24\n%s\n' "$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')" | sort -VC
}

toolchain_main() {
  local level=$1 package variable hidden missing=() packages=() wanted=()
  declare -A provides=([ninja]=ninja-build [cmake]=cmake)
  for package in cmake ninja; do
    command -v "$package" > /dev/null || packages+=("${provides[$package]}")
  done
  # What a package gives, seen without asking the package manager.
  if [ "$level" = demo ]; then
    # Needed where there is no GPU.
    [ -e /usr/include/boost/context/fiber.hpp ] || toolchain_cmake_finds Boost COMPONENTS context ||
      wanted+=(libboost-context-dev)
  fi
  if [ "$level" = test ]; then
    command -v python3 > /dev/null || packages+=(python3)
    [ -e /usr/include/catch2 ] || toolchain_cmake_finds Catch2 || packages+=(catch2)
    [ -e /usr/include/benchmark/benchmark.h ] || toolchain_cmake_finds benchmark ||
      packages+=(libbenchmark-dev)
    [ -e /usr/include/boost/context/fiber.hpp ] || toolchain_cmake_finds Boost COMPONENTS context ||
      packages+=(libboost-context-dev)
    [ -e /usr/include/nlohmann/json.hpp ] || toolchain_cmake_finds nlohmann_json ||
      packages+=(nlohmann-json3-dev)
    # Without these, tests are skipped, and named.
    command -v clang++ > /dev/null || wanted+=(clang)
    compgen -G "/usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.fuzzer*.a" > /dev/null ||
      wanted+=(libclang-rt-dev)
    command -v clang-tidy-14 > /dev/null || wanted+=(clang-tidy-14)
    command -v clang-format-14 > /dev/null || wanted+=(clang-format-14)
    command -v codespell > /dev/null || wanted+=(codespell)
  fi
  if [ "${#packages[@]}" -gt 0 ] || [ "${#wanted[@]}" -gt 0 ]; then
    if toolchain_can_install; then
      [ "${#packages[@]}" -eq 0 ] || toolchain_install "${packages[@]}" || missing+=("${packages[@]}")
      [ "${#wanted[@]}" -eq 0 ] || toolchain_install "${wanted[@]}" || true
    else
      missing+=("${packages[@]}")
    fi
  fi

  for variable in LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH; do
    [ -z "${!variable:-}" ] || export "$variable=$(toolchain_without_cuda "${!variable}")"
  done
  unset CUDA_HOME CUDA_PATH CUDA_ROOT CUDAARCHS NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS
  hidden=$toolchain_root/build/cuda_headers
  if toolchain_unhide_headers "$hidden"; then
    export CPLUS_INCLUDE_PATH="$hidden${CPLUS_INCLUDE_PATH:+:$CPLUS_INCLUDE_PATH}"
  fi
  if ! toolchain_find_cuda && ! { toolchain_can_install && toolchain_install_cuda; }; then
    missing+=(nvidia-cuda-toolkit)
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
    return 1
  fi
  if ! toolchain_cmake_is_new_enough; then
    toolchain_say "$(cmake --version | sed -n 1p) is too old: 3.24 or later is needed. Get one with" \
      "'pip install cmake', from https://apt.kitware.com or from https://cmake.org/download, and" \
      "put it first in PATH."
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
    "($CUDACXX), host compiler $CUDAHOSTCXX, $(cmake --version | sed -n 1p)"
}

toolchain_main "${1:?demo or test}"
