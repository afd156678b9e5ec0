// The bytes that this process has from the allocator now.
#pragma once

#include <malloc.h>
#include <stddef.h>

#include "common/testing/sanitizers.h"

#ifdef TALOS_ADDRESS_SANITIZER
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace talos {

inline size_t heapInUse() {
#ifdef TALOS_ADDRESS_SANITIZER
  return __sanitizer_get_current_allocated_bytes();
#else
  auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
#endif
}

}  // namespace talos
