// FUZZ_TARGET(name) { … } is one target: it gives `data` of `size` bytes to a parser of foreign
// bytes and returns 0. A file <subject>-fuzz.cc holds the targets of one subject; a target's seeds
// are in corpus/<name>/ beside the file. CMakeLists.txt reads the names from the sources.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FUZZ_TARGET(name) extern "C" int fuzz_##name(const uint8_t* data, size_t size)
