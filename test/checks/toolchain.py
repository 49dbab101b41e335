#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cmake/toolchain.sh finds or installs everything at the first try: toolchain.py REPOSITORY CMAKE.

Each case is a root of its own with stand-ins for the package manager, the compilers and CMake, which
fail where the real ones do. Needs no GPU, no network and no rights."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOOLS = ("awk bash cat cp cut dirname env grep ln ls mkdir mktemp paste realpath rm sed sort tail tee "
         "touch tr").split()
DEMO = ["cmake", "ninja-build", "nvidia-cuda-toolkit", "g++-11", "libboost-context-dev"]
TEST = DEMO + ["python3", "catch2", "libbenchmark-dev", "nlohmann-json3-dev", "clang",
               "libclang-rt-dev", "g++", "clang-tidy-14", "clang-format-14", "codespell"]
LIBRARIES = {"libboost-context-dev": "Boost", "python3": "Python3", "catch2": "Catch2",
             "libbenchmark-dev": "benchmark", "nlohmann-json3-dev": "nlohmann_json"}

# A package has a candidate once the lists were fetched with its component; the toolkit is non-free.
APT_GET = """\
cd "$PAGEUNION_SYSTEM_ROOT"
while [ "${1#-}" != "$1" ]; do [ "$1" != -o ] || shift; shift; done
case $1 in
  indextargets) echo "Debian http://archive/debian/" ;;
  update) touch lists; ! grep -q non-free etc/apt/sources.list.d/*.sources || echo non-free > lists ;;
  install)
    for package in "${@:4}"; do
      apt-cache policy "$package" | grep -q "Candidate: 1" || exit 100
      cp -R "archive/$package/." . && echo "$package" >> installed
    done ;;
esac"""
APT_CACHE = """\
cd "$PAGEUNION_SYSTEM_ROOT"
[ -e lists ] && [ -d "archive/$2" ] && { [ "$2" != nvidia-cuda-toolkit ] || grep -q non-free lists; } &&
  printf '%s:\\n  Candidate: 1\\n' "$2" || printf '%s:\\n  Candidate: (none)\\n' "$2" """
# Of 11.8: headers of another toolkit that come first, its ptxas, and a compiler that is missing or
# too new are errors. A toolkit in a folder of its own looks for headers there first.
NVCC = """\
case $1 in
  --version) echo "Cuda compilation tools, release VERSION, VVERSION.1"; exit ;;
  --list-gpu-code) for code in CODES; do echo "$code"; done; exit ;;
esac
while [ $# -gt 0 ]; do
  case $1 in -ccbin) host=$2 ;; -arch=*) code=${1#-arch=} ;; esac
  shift
done
[[ " CODES " == *" $code "* ]] && [ "$(ptxas)" = VERSION ] && [ "$("$host")" -le 11 ] || exit 1
IFS=:
for folder in OWN $CPLUS_INCLUDE_PATH "$PAGEUNION_SYSTEM_ROOT"/usr/{local/,}include; do
  [ ! -e "$folder/cuda_runtime.h" ] || { [ "$(cat "$folder/cuda_runtime.h")" = VERSION ]; exit; }
done
exit 1"""
# CMake itself reads what it is asked; it needs a compiler and ninja, as in a real project.
CMAKE = """\
[ "$1" != --version ] || { echo "cmake version VERSION"; exit; }
[ "$1$3$5$6" = -S-B-GNinja ] && "$CXX" && ninja && cd "$4" &&
  "$REAL_CMAKE" -P "$PAGEUNION_SYSTEM_ROOT/cmake_stand_in.cmake"
"""
CMAKE_STAND_IN = """\
macro(project)
endmacro()
macro(find_package name)
  if(EXISTS $ENV{PAGEUNION_SYSTEM_ROOT}/usr/lib/cmake/${name})
    set(${name}_FOUND TRUE)
  endif()
endmacro()
include(${CMAKE_BINARY_DIR}/CMakeLists.txt)
"""
SOURCES = """\
Types: deb
URIs: http://archive/debian
Suites: bookworm
Components: main
"""
# As the two commands call it; then what the build does with what was found.
CALL = """\
set -euo pipefail
source "$PAGEUNION_SYSTEM_ROOT/project/cmake/toolchain.sh" "$1"
"$CUDACXX" -ccbin "$CUDAHOSTCXX" -arch=sm_70 probe.cu || { echo "the build fails"; exit 1; }
for found in "$CUDACXX" "$CXX" "$PAGEUNION_SECOND_NVCC" "${toolchain_cmake:-$(type -P cmake)}"; do
  echo "found ${found#"$PAGEUNION_SYSTEM_ROOT"}"
done
"""


class System:
    def __init__(self, root, repository, cmake):
        self.root = root
        self.environment = {"PAGEUNION_SYSTEM_ROOT": str(root), "REAL_CMAKE": cmake, "PATH": ":".join(
            f"{root}/{folder}" for folder in ("usr/local/cuda/bin", "usr/local/bin", "usr/bin", "tools"))}
        for tool in TOOLS:
            self.file(f"tools/{tool}").symlink_to(shutil.which(tool))
        self.script("tools/id", "echo ${USER_ID:-0}")
        self.script("tools/apt-get", APT_GET)
        self.script("tools/apt-cache", APT_CACHE)
        self.file("cmake_stand_in.cmake").write_text(CMAKE_STAND_IN)
        self.file("etc/os-release").write_text("ID=debian\nVERSION_CODENAME=bookworm\n")
        self.file("etc/apt/sources.list.d/debian.sources").write_text(SOURCES)
        shutil.copy(repository / "cmake" / "toolchain.sh", self.file("project/cmake/toolchain.sh"))

        self.script("archive/cmake/usr/bin/cmake", CMAKE.replace("VERSION", "3.25.1"))
        self.script("archive/ninja-build/usr/bin/ninja", "")
        toolkit = "archive/nvidia-cuda-toolkit/usr"
        self.toolkit(f"{toolkit}/bin", f"{toolkit}/include", "11.8", "sm_52 sm_70 sm_75", own="")
        self.script("archive/g++/usr/bin/g++", "echo 12")  # too new for this toolkit
        self.script("archive/g++-11/usr/bin/g++-11", "echo 11")
        for package, library in LIBRARIES.items():
            self.file(f"archive/{package}/usr/lib/cmake/{library}").touch()
        self.script("archive/clang/usr/bin/clang++", '[ -e "$PAGEUNION_SYSTEM_ROOT/usr/lib/fuzzer" ]')
        self.file("archive/libclang-rt-dev/usr/lib/fuzzer").touch()
        for tool in ("clang-tidy-14", "clang-format-14", "codespell"):
            self.script(f"archive/{tool}/usr/bin/{tool}", "")

    def file(self, name):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def script(self, name, text):
        self.file(name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (self.root / name).chmod(0o755)

    def toolkit(self, programs, headers, version, codes, own):
        text = NVCC.replace("VERSION", version).replace("CODES", codes).replace("OWN", own)
        self.script(f"{programs}/nvcc", text)
        self.script(f"{programs}/ptxas", f"echo {version}")
        self.file(f"{headers}/cuda_runtime.h").write_text(f"{version}\n")

    def put(self, thing):
        if thing == "CUDA 13":
            folder = "usr/local/cuda-13.0"
            self.toolkit(f"{folder}/bin", f"{folder}/include", "13.0", "sm_75 sm_80",
                         f"{self.root}/{folder}/include")
            self.file("usr/local/cuda").symlink_to("cuda-13.0")
            self.file("usr/local/include/cuda_runtime.h").symlink_to("../cuda/include/cuda_runtime.h")
        elif thing == "old CMake":
            self.script("usr/local/bin/cmake", CMAKE.replace("VERSION", "3.20.0"))
        elif thing == "toolkit without headers":
            self.toolkit("opt/cuda-11.8/bin", "nowhere", "11.8", "sm_70", own="")
        elif thing == "user":
            self.environment["USER_ID"] = "1000"
        else:
            shutil.copytree(self.root / "archive" / thing, self.root, dirs_exist_ok=True)

    def source(self, level):
        """Exit code, all lines of output, and what was installed."""
        (self.root / "installed").write_text("")
        ended = subprocess.run([shutil.which("bash"), "-c", CALL, "bash", level], text=True, timeout=300,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environment)
        return (ended.returncode, ended.stdout.splitlines(),
                (self.root / "installed").read_text().split())


CUDA_11 = ["nvidia-cuda-toolkit", "g++-11"]
CASES = {  # what is there at the beginning
    "nothing": [],
    "CUDA 13": ["CUDA 13"],
    "CUDA 11.8 without g++-11": ["nvidia-cuda-toolkit", "g++"],
    "CUDA 11.8 without g++-11 beside 13": ["CUDA 13", "nvidia-cuda-toolkit"],
    "both": ["CUDA 13", *CUDA_11],
    "everything": ["CUDA 13", *TEST],
    "an old CMake": ["CUDA 13", "old CMake", *CUDA_11],
    "a toolkit without headers": ["toolkit without headers", "cmake", "ninja-build", "g++", "g++-11"],
    "clang without its runtime": ["clang", *DEMO],
    "no rights": ["CUDA 13", "user", "catch2"],
}


def faults(things, level, system):
    for thing in things:
        system.put(thing)
    wanted = sorted(set(DEMO if level == "demo" else TEST) - set(things))
    code, lines, installed = system.source(level)
    if "user" in things:
        named = [line.split() for line in lines if "toolchain: missing: " in line]
        needed = {"cmake", "ninja-build", "nvidia-cuda-toolkit"} | (
            {"libbenchmark-dev"} if level == "test" else set())
        if code == 0 or installed or len(named) != 1 or not needed <= set(named[0]):
            yield f"exit code {code}, installed {installed}, named {named}"
        return
    if code != 0:
        yield f"exit code {code}"
    if sorted(installed) != wanted:
        yield f"installed {installed}; missing were {wanted}"
    second = "/usr/local/cuda/bin/nvcc" if "CUDA 13" in things else ""
    expected = [f"found {path}" for path in ("/usr/bin/nvcc", "/usr/bin/g++-11", second, "/usr/bin/cmake")]
    if lines[-4:] != expected:
        yield "\n".join(lines)
    if system.source(level)[::2] != (0, []):
        yield "the second try installs again"


def main(repository, cmake):
    failed = 0
    for name, things in CASES.items():
        for level in ("demo", "test"):
            with tempfile.TemporaryDirectory() as folder:
                system = System(pathlib.Path(os.path.realpath(folder)), pathlib.Path(repository), cmake)
                for fault in faults(things, level, system):
                    print(f"{name}, {level}: {fault}")
                    failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
