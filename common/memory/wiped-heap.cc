// free() of our programs: overwrites memory before it is freed. Linked by the build's --wrap=free
// (common/CMakeLists.txt) into every program that has this room.
//
// Secrets travel: through messages of Cap'n Proto that are sent and received, frames of coroutines,
// buffers of TLS, texts of exceptions. Code that knows of a secret overwrites it with zeroize();
// this function covers all code that does not know. A block with its own mapping is returned to the
// kernel, which overwrites it. A realloc() that moves is not intercepted, and no code of ours uses
// it.
#include <malloc.h>
#include <stddef.h>
#include <string.h>

extern "C" {
void __real_free(void* memory);

void __wrap_free(void* memory) {
  if (memory == nullptr) return;
  // Two words are left: the allocator overwrites them itself, and recognizes already freed memory
  // by the second one, so that it still ends a program that frees twice.
  constexpr size_t kOfTheAllocator = 2 * sizeof(void*);
  // Bit 1 of the word in front, of the size: mapped for itself.
  bool mapped = (static_cast<const size_t*>(memory)[-1] & 2) != 0;
  size_t size = mapped ? 0 : malloc_usable_size(memory);
  if (size > kOfTheAllocator) {
    explicit_bzero(static_cast<char*>(memory) + kOfTheAllocator, size - kOfTheAllocator);
  }
  __real_free(memory);
}
}
