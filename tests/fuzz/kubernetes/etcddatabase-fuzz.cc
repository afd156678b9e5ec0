// link: common-etcd-data
// The database in a snapshot of etcd: from a user's disk.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/etcd-data/etcd-database.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto read = [&](uint64_t at, size_t bytes) {
    KJ_ASSERT(at <= size && bytes <= size - at);
    return kj::heapArray<kj::byte>(data + at, bytes);
  };
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&]() { KJ_ASSERT(talos::newestRevision(size, read) >= 0); })) {
    KJ_ASSERT(talos::kindOf(*e) == talos::ErrorKind::kInvalidArgument, *e);
  }
  return 0;
}
