// link: talosctl-client
// The answer of an HTTP proxy to CONNECT, and the first bytes of the tunnel after it.
#include <kj/async-io.h>
#include <kj/debug.h>
#include <string.h>

#include "common/base/error.h"
#include "talosctl/client/http-proxy.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos;

// Returns the bytes of the tunnel; nullptr if the proxy refuses it.
kj::Maybe<kj::Array<kj::byte>> bytesOfTunnel(kj::ArrayPtr<const kj::byte> input) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  auto pipe = kj::newTwoWayPipe();
  auto& end = *pipe.ends[1];
  auto writing = end.write(input.begin(), input.size())
                     .then([&end] { end.shutdownWrite(); })
                     .eagerlyEvaluate([](kj::Exception&&) {});
  auto reading = end.readAllBytes().ignoreResult().eagerlyEvaluate([](kj::Exception&&) {});
  talosctl::HttpProxy proxy{"HTTPS_PROXY", kj::str("10.0.0.9"), 3128, kj::String()};
  kj::Maybe<kj::Array<kj::byte>> bytes;
  auto failure = kj::runCatchingExceptions([&] {
    auto opening = talosctl::openTunnel(kj::mv(pipe.ends[0]), proxy, "node.example.org", 50000);
    auto tunnel = opening.wait(scope);
    bytes = tunnel->readAllBytes().wait(scope);
  });
  KJ_IF_MAYBE (e, failure) {
    KJ_ASSERT(kindOf(*e) == ErrorKind::kUnavailable, *e);
    for (char c : messageOf(*e)) KJ_ASSERT(c != '\n' && c != '\r' && c != '\x1b');
  }
  return bytes;
}

}  // namespace

FUZZ_TARGET(proxyanswer) {
  static bool right = [] {
    auto found = bytesOfTunnel("HTTP/1.1 200 OK\r\n\r\nhello"_kj.asBytes());
    auto& bytes = KJ_ASSERT_NONNULL(found, "what is damaged must be right");
    KJ_ASSERT(bytes.size() == 5, "what is damaged must be right");
    return true;
  }();
  (void)right;
  KJ_IF_MAYBE (bytes, bytesOfTunnel(kj::arrayPtr(data, size))) {
    KJ_ASSERT(bytes->size() < size, "bytes that the proxy did not send");
    auto from = data + size - bytes->size();
    bool same = bytes->size() == 0 || memcmp(bytes->begin(), from, bytes->size()) == 0;
    KJ_ASSERT(same, "a byte of the tunnel is lost");
  }
  return 0;
}
