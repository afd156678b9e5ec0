// Whether this program was built with AddressSanitizer: for tests that measure memory, or that run
// a program where only a static one can run.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TALOS_ADDRESS_SANITIZER 1
#endif
#endif

namespace talos {

#ifdef TALOS_ADDRESS_SANITIZER
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

}  // namespace talos
