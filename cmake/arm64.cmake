# Compiles for arm64 (`make ARCH=arm64 …`) against the tree of rootfs/sysroot.sh. What runs during the build is the build
# root's own, so it has the generators (capnp, protoc) that fit the libraries of the tree: both are of the same release.
# Programs made by this build, tests among them, run under QEMU's emulation of one program.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_SYSROOT /build/root-arm64)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_SYSROOT}/opt/emulators/usr/bin/qemu-aarch64;-L;${CMAKE_SYSROOT})
# As on amd64: what is not ASCII is below every ASCII character, on both or on neither.
set(CMAKE_CXX_FLAGS_INIT -fsigned-char)
set(CMAKE_EXE_LINKER_FLAGS_INIT -fuse-ld=lld)
