// link: manifestd-lib
// A server of extra manifests: its redirects and its answers. The first line of the input is the
// Location, relative to an https and to an http URL; the rest is the answer.
#include <kj/debug.h>

#include "common/base/error.h"
#include "manifestd/manifest-source.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos;
using namespace talos::manifestd;

void follow(kj::StringPtr from, kj::StringPtr location, kj::ArrayPtr<const char> body) {
  auto source = readSource(from);
  auto failure = kj::runCatchingExceptions([&] {
    auto next = redirected(source, location);
    KJ_ASSERT(next.url.scheme == "https" || (next.url.scheme == "http" && !source.secure()));
    KJ_ASSERT(next.host().size() > 0 && next.port() != 0 && next.target().startsWith("/"));
    for (unsigned char c : next.target()) KJ_ASSERT(c > ' ' && c != 0x7f, "splits the request");
    for (unsigned char c : next.url.host) KJ_ASSERT(c > ' ' && c != 0x7f, "splits the request");
    KJ_ASSERT(next.shown.findFirst('?') == nullptr && next.url.userInfo == nullptr);
    readManifest(next, body);
  });
  KJ_IF_MAYBE (e, failure) {
    KJ_ASSERT(kindOf(*e) == ErrorKind::kInvalidArgument, *e);
  }
}

}  // namespace

FUZZ_TARGET(manifestsource) {
  auto bytes = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  size_t end = 0;
  while (end < bytes.size() && bytes[end] != '\n' && bytes[end] != '\0') ++end;
  auto location = kj::heapString(bytes.slice(0, end));
  auto body = bytes.slice(kj::min(end + 1, bytes.size()), bytes.size());
  follow("https://example.org/a/b.yaml?token=x", location, body);
  follow("http://example.org:8080/a", location, body);
  return 0;
}
