// What this process has from the allocator now, in bytes.
#pragma once

#include <malloc.h>
#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TALOS_SANITIZED_HEAP 1
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif
#endif

namespace talos {

inline size_t heapInUse() {
#ifdef TALOS_SANITIZED_HEAP
  return __sanitizer_get_current_allocated_bytes();
#else
  auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
#endif
}

}  // namespace talos
