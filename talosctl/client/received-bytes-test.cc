#include "talosctl/client/received-bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;

// Catches: a node that keeps the capability and writes into memory that the caller has freed.
TEST(ReceivedBytes, ASinkThatIsKeptIsRefusedOnceTheReceiverIsGone) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  std::string taken;
  rpc::ByteSink::Client kept = nullptr;
  auto write = [&]() {
    auto request = kept.writeRequest();
    request.setBytes("x"_kj.asBytes());
    return request.send()
        .then([]() { return kj::str(); },
              [](kj::Exception&& e) { return kj::str(e.getDescription()); })
        .wait(scope);
  };
  {
    ReceivedBytes received([&](kj::ArrayPtr<const kj::byte> bytes) {
      taken.append(bytes.asChars().begin(), bytes.size());
    });
    kept = received.sink();
    EXPECT_EQ(write(), "");
  }
  EXPECT_THAT(write().cStr(), HasSubstr("revoked"));
  EXPECT_EQ(taken, "x");
}

}  // namespace
}  // namespace talos::talosctl
