// link: backupd-lib
// Answers of a store with the S3 API.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>

#include "backupd/s3-store.h"
#include "common/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto body = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { talos::backupd::readS3Page(body); })) {
    KJ_ASSERT(talos::kindOf(*e) == talos::ErrorKind::kInvalidArgument, *e);
  }
  auto error = talos::backupd::readS3Error(500, "Error", body);
  for (char c : error) KJ_ASSERT(c >= ' ' && c <= '~');
  return 0;
}
