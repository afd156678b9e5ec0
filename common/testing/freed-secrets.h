// Detects freed memory that still holds a secret; for tests. Replaces the allocator's operators of
// the whole test program, so exactly one of its files includes this header.
#pragma once

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <new>

namespace talos {

// Counts freed blocks with `secret` in them, while it exists. One object at a time.
class FreedSecrets {
 public:
  explicit FreedSecrets(const char* secret) {
    freed = 0;
    wanted = secret;
  }
  ~FreedSecrets() { wanted = nullptr; }
  unsigned count() const { return freed; }

  static void look(void* memory) {
    const char* secret = wanted;
    if (secret == nullptr || memory == nullptr) return;
    if (memmem(memory, malloc_usable_size(memory), secret, strlen(secret)) != nullptr) ++freed;
  }

 private:
  static inline std::atomic<const char*> wanted = nullptr;
  static inline std::atomic<unsigned> freed = 0;
};

}  // namespace talos

void* operator new(size_t size) {
  void* memory = malloc(size > 0 ? size : 1);
  if (memory == nullptr) abort();
  return memory;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return malloc(size > 0 ? size : 1);
}
void operator delete(void* memory) noexcept {
  talos::FreedSecrets::look(memory);
  free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  operator delete(memory);
}
