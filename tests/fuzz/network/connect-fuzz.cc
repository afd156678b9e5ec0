// link: etcd-supervisor-plan
// Bytes that a program of the node sends to the proxy of etcd.
#include <kj/debug.h>

#include "etcd-supervisor/plan/connect-request.h"
#include "tests/fuzz/fuzz-target.h"

FUZZ_TARGET(connect) {
  using namespace talos::supervisor;
  auto received = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  KJ_IF_MAYBE (end, headSize(received)) {
    KJ_ASSERT(*end >= 4 && *end <= size);
    auto failure = kj::runCatchingExceptions([&] {
      auto target = connectTarget(received.slice(0, *end));
      KJ_ASSERT(target.port != 0);
    });
    KJ_IF_MAYBE (e, failure) KJ_ASSERT(e->getDescription().size() < 200);
  }
  return 0;
}
