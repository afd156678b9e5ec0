// Constants for builds with sanitizers. AddressSanitizer matters to tests that measure memory, or
// that run a program where only a static one can run. With any sanitizer the program is not static,
// and its free() is the C library's own (common/memory/wiped-heap.cc).
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TALOS_ADDRESS_SANITIZER 1
#endif
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || \
    __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define TALOS_SANITIZED 1
#endif
#endif

namespace talos {

#ifdef TALOS_ADDRESS_SANITIZER
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

#ifdef TALOS_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace talos
