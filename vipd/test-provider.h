// A provider for tests: notes its calls, and fails or does not answer when a test says so.
#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "vipd/provider.h"

namespace talos::vipd {

// The provider's state, which all hosts share.
struct TestCloud {
  std::string at;                  // the host that has the address
  std::vector<std::string> calls;  // "find a", "assign a"
  std::string problem;             // of the next calls
  ErrorKind kind = ErrorKind::kUnavailable;
  bool hangs = false;
  unsigned pending = 0;  // calls that hang, and that their callers still wait for
};

class TestProvider final : public Provider {
 public:
  TestProvider(TestCloud& cloud, kj::StringPtr host) : cloud(cloud), host(host.cStr()) {}

  kj::StringPtr name() const override { return "the cloud"; }
  kj::Promise<void> find(Machine) override { return answer("find "); }
  kj::Promise<bool> assign() override {
    co_await answer("assign ");
    bool moved = cloud.at != host;
    cloud.at = host;
    co_return moved;
  }

 private:
  TestCloud& cloud;
  std::string host;

  kj::Promise<void> answer(const char* call) {
    cloud.calls.push_back(call + host);
    if (cloud.hangs) {
      ++cloud.pending;
      KJ_DEFER(--cloud.pending);
      co_await kj::Promise<void>(kj::NEVER_DONE);
    }
    if (!cloud.problem.empty()) fail(cloud.kind, cloud.problem.c_str());
  }
};

}  // namespace talos::vipd
