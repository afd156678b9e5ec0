// link: registryd-lib
// A request to registryd, and a manifest of its cache. The first line of the input is the target of
// the request, the second the range of bytes; the rest is the manifest.
#include <kj/debug.h>

#include "common/base/error.h"
#include "registryd/cache-request.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos;
using namespace talos::registryd;

kj::String nextLine(kj::ArrayPtr<const char>& bytes) {
  size_t end = 0;
  while (end < bytes.size() && bytes[end] != '\n' && bytes[end] != '\0') ++end;
  auto line = kj::heapString(bytes.slice(0, end));
  bytes = bytes.slice(kj::min(end + 1, bytes.size()), bytes.size());
  return line;
}

void checkPath(kj::StringPtr path) {
  KJ_ASSERT(path.startsWith("blob/sha256-") || path.startsWith("manifests/"), path);
  for (size_t i = 0; i <= path.size(); ++i) {
    if (i > 0 && path[i - 1] != '/') continue;
    KJ_ASSERT(path[i] != '.' && path[i] != '/' && path[i] != '\0', "leads out of the cache", path);
  }
  for (unsigned char c : path) KJ_ASSERT(c > ' ' && c < 0x7f, path);
}

}  // namespace

FUZZ_TARGET(cacherequest) {
  auto bytes = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  auto target = nextLine(bytes), range = nextLine(bytes);
  KJ_IF_MAYBE (request, readRequest(target)) {
    using Kind = CacheRequest::Kind;
    bool isFile = request->kind == Kind::kManifest || request->kind == Kind::kBlob;
    if (isFile) checkPath(request->path);
    KJ_ASSERT(isFile == request->path.size() > 0);
  }
  for (uint64_t length : {uint64_t(0), uint64_t(1), uint64_t(1) << 40}) {
    KJ_IF_MAYBE (part, readRange(range, length)) {
      KJ_ASSERT(part->begin < part->end && part->end <= length);
    }
  }
  auto failure = kj::runCatchingExceptions([&] {
    for (unsigned char c : mediaTypeOf(bytes)) KJ_ASSERT(c > ' ' && c < 0x7f);
  });
  KJ_IF_MAYBE (e, failure) {
    KJ_ASSERT(kindOf(*e) == ErrorKind::kInvalidArgument, *e);
  }
  return 0;
}
