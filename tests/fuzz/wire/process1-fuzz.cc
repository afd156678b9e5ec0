// link: init-core
// Messages of the brain to process 1: whatever check() lets through must be safe to take apart.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <memory>

#include "machined/process1/init/request-check.h"
#include "tests/fuzz/fuzz-target.h"

FUZZ_TARGET(process1) {
  using namespace talos::process1;
  if (size < 1) return 0;
  unsigned descriptors = data[0] % 20;
  // The buffer has the packet's size and not a byte more, so that the sanitizer sees a read beyond
  // it; it is aligned as in the loop.
  auto packet = std::make_unique<uint8_t[]>(size - 1);
  memcpy(packet.get(), data + 1, size - 1);
  if (check(packet.get(), size - 1, descriptors) != nullptr) return 0;
  auto& request = *reinterpret_cast<const Request*>(packet.get());
  if (strlen(request.name) >= kNameSize) abort();
  if (request.kind != RequestKind::kSpawn) return 0;
  auto& spawn = *reinterpret_cast<const Spawn*>(packet.get());
  char* argv[kMaxStrings + 1];
  char* environment[kMaxStrings + 1];
  strings(spawn, argv, environment);
  size_t total = 0;
  for (char** a = argv; *a != nullptr; ++a) total += strlen(*a) + 1;
  for (char** e = environment; *e != nullptr; ++e) total += strlen(*e) + 1;
  if (total != spawn.textSize) abort();
  return 0;
}
