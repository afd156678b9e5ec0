// Archives for fuzzers: checksums of tar headers that fit, which a fuzzer would have to guess.
#pragma once

#include <kj/common.h>
#include <string.h>

namespace talos::fuzz {

// Puts the checksum of every block of 512 bytes right; with `onlyHeaders`, only of blocks with the
// magic of a header.
inline void fitChecksums(kj::ArrayPtr<kj::byte> bytes, bool onlyHeaders) {
  for (size_t at = 0; at + 512 <= bytes.size(); at += 512) {
    if (onlyHeaders && memcmp(bytes.begin() + at + 257, "ustar", 5) != 0) continue;
    unsigned sum = 8 * ' ';
    for (size_t i = 0; i < 512; ++i) sum += i < 148 || i >= 156 ? bytes[at + i] : 0;
    for (int i = 5; i >= 0; --i, sum /= 8) bytes[at + 148 + i] = kj::byte('0' + sum % 8);
    bytes[at + 154] = 0;
    bytes[at + 155] = ' ';
  }
}

}  // namespace talos::fuzz
